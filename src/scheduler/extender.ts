import * as v from 'valibot';
import { InvalidInput } from '../base/errors.ts';
import type { Answer } from '../http/json-server.ts';
import { predicate } from './predicate.ts';
import { prioritize } from './prioritize.ts';
import type { Divisors } from './scheduler-config.ts';

const annotated = v.looseObject({
  metadata: v.looseObject({
    name: v.optional(v.string()),
    annotations: v.nullish(v.record(v.string(), v.string())),
  }),
});
const extenderArgs = v.object({
  pod: annotated,
  nodes: v.looseObject({ items: v.nullish(v.array(annotated), []) }),
});

/** The scheduler extender's answers, by path, in the form that TopoLVM's gives and kube-scheduler reads. */
export function extender(divisors: Divisors): Readonly<Record<string, Answer>> {
  return {
    '/predicate': (body) => {
      const { pod, nodes } = parseArgs(body);
      const { fitting, failed } = predicate(pod, nodes.items);
      return { nodes: { ...nodes, items: fitting }, failedNodes: failed };
    },
    '/prioritize': (body) => {
      const { pod, nodes } = parseArgs(body);
      return prioritize(pod, nodes.items, divisors);
    },
    '/status': () => 'ok',
  };
}

/** kube-scheduler writes `Pod` where TopoLVM's own clients write `pod`; Go reads either. */
function parseArgs(body: unknown): v.InferOutput<typeof extenderArgs> {
  const args = Object.fromEntries(
    Object.entries(Object(body) as object).map(([key, value]) => [key.toLowerCase(), value]),
  );
  const result = v.safeParse(extenderArgs, args);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const remedy = 'send Pod and Nodes, as kube-scheduler does for an extender with nodeCacheCapable: false';
  throw new InvalidInput(`${v.getDotPath(issue) ?? 'the body'}: ${issue.message}; ${remedy}`);
}
