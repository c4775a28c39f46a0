import type { KubeObject, Pod, Stored } from '../../kube/resource.ts';

const redacted = 'REDACTED';

/** Whose annotations are known to hold no secrets. */
const knownAnnotations =
  /^([\w.-]+\.)?(kubernetes\.io|k8s\.io|topolvm\.io|topolvm\.cybozu\.com|moorage\.dev|helm\.sh|local-pv\.k8s\.portavita\.net)\//;
/** It repeats the whole object, with all that was ever applied. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

const secretWord = /pass(word|wd|phrase)|token|credential|private|api[-_]?key|secret$/i;

/**
 * An object without what may be a secret: values of environment variables, annotations of others, arguments and fields whose
 * name says so, and the history of its writers. Names of Secrets stay.
 */
export function redact(object: KubeObject): unknown {
  return walk(object, '');
}

function walk(value: unknown, key: string): unknown {
  if (Array.isArray(value)) {
    if (key === 'env') return value.map(variable);
    if (key === 'args' || key === 'command') return words(value);
    return value.map((each) => walk(each, key));
  }
  if (typeof value === 'string') return secretWord.test(key) ? redacted : scrub(value);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => name !== 'managedFields');
  if (key === 'annotations') return Object.fromEntries(entries.map(annotation));
  return Object.fromEntries(entries.map(([name, each]) => [name, walk(each, name)]));
}

function variable(entry: { readonly name: string; readonly value?: string; readonly valueFrom?: unknown }): unknown {
  return { ...entry, ...(entry.value !== undefined && { value: redacted }) };
}

function annotation([name, value]: [string, unknown]): [string, unknown] {
  const isKnown = knownAnnotations.test(name) && name !== lastApplied && !secretWord.test(name);
  return [name, isKnown ? scrub(String(value)) : redacted];
}

/** `--token=x` and `--token x`. */
function words(all: readonly string[]): readonly string[] {
  return all.map((word, i) => {
    const [flag, ...value] = word.split('=');
    if (namesSecret(flag) && value.length > 0) return `${flag}=${redacted}`;
    return namesSecret(all[i - 1]) && !word.startsWith('-') ? redacted : scrub(word);
  });
}

/** Whether it is a flag whose value is a secret, without that value. */
function namesSecret(word = ''): boolean {
  return word.startsWith('-') && !word.includes('=') && secretWord.test(word);
}

/** A pod of a user: only what shows where it runs and which volumes it waits for. Its programs are nobody's business. */
export function redactUserPod({ metadata, spec, status }: Stored<Pod>): unknown {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, ownerReferences } = metadata;
  const { nodeName, nodeSelector, affinity, tolerations, schedulerName, priorityClassName } = spec ?? {};
  const volumes = (spec?.volumes ?? []).filter((each) => each.persistentVolumeClaim || each.ephemeral);
  const claims = volumes.map(({ name, persistentVolumeClaim, ephemeral }) => ({
    name,
    persistentVolumeClaim,
    ephemeral,
  }));
  const containers = spec?.containers.map(({ name, image, resources }) => ({ name, image, resources }));
  const { phase, reason, message, conditions, startTime } = status ?? {};
  return walk(
    {
      metadata: { name, namespace, uid, creationTimestamp, deletionTimestamp, ownerReferences },
      spec: {
        nodeName,
        nodeSelector,
        affinity,
        tolerations,
        schedulerName,
        priorityClassName,
        volumes: claims,
        containers,
      },
      status: { phase, reason, message, conditions, startTime },
    },
    '',
  );
}

const patterns: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, redacted],
  [/\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*/g, redacted], // a JSON Web Token
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${redacted}`],
  [/\/\/[^/\s:@"]+:[^/\s@"]+@/g, `//${redacted}@`], // a URL with a password
  [/((?:pass(?:word|wd|phrase)|token|secret|api[-_]?key)["'\\]*\s*[=:]\s*["'\\]*)[^\s"',;}\\]{4,}/gi, `$1${redacted}`],
];

/** A last net for text that should not contain secrets, such as logs and messages. */
export function scrub(text: string): string {
  return patterns.reduce((result, [pattern, replacement]) => result.replaceAll(pattern, replacement), text);
}
