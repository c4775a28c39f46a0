import { X509Certificate } from 'node:crypto';
import { webhookConfigurationName } from '../api/names.ts';
import { Informer, type InformerOptions } from '../kube/informer.ts';
import type { KubeObject, Resource, Stored } from '../kube/resource.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../kube/resource.ts';

/** What both kinds of configurations have in common. */
export interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly { readonly name: string; readonly clientConfig: { readonly caBundle?: string } }[];
}

/** A watch of one object that has CA bundles for our webhooks. */
export interface WatchedConfiguration {
  readonly resource: Resource<WebhookConfiguration>;
  readonly informer: Informer<WebhookConfiguration>;
}

/** Watches of the objects that have the CA bundles for our webhooks. */
export function watchWebhookConfigurations(
  collaborators: Pick<InformerOptions<WebhookConfiguration, never>, 'client' | 'clock' | 'log'>,
): readonly WatchedConfiguration[] {
  const { client, clock, log } = collaborators;
  const fieldSelector = `metadata.name=${webhookConfigurationName}`;
  return [mutatingWebhookConfigurations, validatingWebhookConfigurations].map(
    (resource: Resource<WebhookConfiguration>) => ({
      resource,
      informer: new Informer({ client, resource, fieldSelector, clock, log }),
    }),
  );
}

/** The configuration, if there is one; without it none of its webhooks is called. */
export function configurationIn({ informer }: WatchedConfiguration): Stored<WebhookConfiguration> | undefined {
  return informer.get(webhookConfigurationName);
}

/**
 * Why the API server rejects a webhook that serves this chain (the server's own certificate first); undefined if it does
 * not.
 */
export function untrusted(configurations: readonly WatchedConfiguration[], chain: string): string | undefined {
  for (const watched of configurations) {
    const name = `${watched.resource.kind} ${webhookConfigurationName}`;
    if (!watched.informer.synced) return `${name} has not been read yet`;
    const { webhooks = [] } = configurationIn(watched) ?? {};
    const distrusting = webhooks.find(({ clientConfig }) => !isTrusted(chain, bundleOf(clientConfig)));
    if (!distrusting) continue;
    return `${name} does not trust the certificate of this process: the caBundle of ${distrusting.name} has no CA for it`;
  }
  return undefined;
}

export function bundleOf({ caBundle = '' }: { readonly caBundle?: string }): string {
  return Buffer.from(caBundle, 'base64').toString();
}

export function certificatesIn(text: string): string[] {
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return found.map((pem) => `${pem}\n`);
}

/** Whether a certificate of the bundle is, or has signed, the first of the chain, directly or through the others. */
export function isTrusted(chain: string, bundle: string): boolean {
  const parse = (text: string) => certificatesIn(text).map((pem) => new X509Certificate(pem));
  const anchors = parse(bundle);
  const [leaf, ...others] = parse(chain);
  for (let current = leaf; current; ) {
    const subject: X509Certificate = current;
    if (anchors.some((anchor) => anchor.fingerprint256 === subject.fingerprint256 || hasSigned(anchor, subject))) {
      return true;
    }
    const issuer = others.findIndex((other) => hasSigned(other, subject));
    [current] = issuer < 0 ? [] : others.splice(issuer, 1);
  }
  return false;
}

function hasSigned(issuer: X509Certificate, subject: X509Certificate): boolean {
  return subject.checkIssued(issuer) && subject.verify(issuer.publicKey);
}
