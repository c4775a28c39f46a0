import { X509Certificate } from 'node:crypto';
import { webhookConfigurationName } from '../api/names.ts';
import { Informer, type InformerOptions } from '../kube/informer.ts';
import { type MutatingWebhookConfiguration, mutatingWebhookConfigurations } from '../kube/resource.ts';

export type WebhookConfigurations = Informer<MutatingWebhookConfiguration>;

/** A watch of the object that has the CA bundles for our webhooks. */
export function watchWebhookConfiguration(
  collaborators: Pick<InformerOptions<MutatingWebhookConfiguration, never>, 'client' | 'clock' | 'log'>,
): WebhookConfigurations {
  const { client, clock, log } = collaborators;
  const fieldSelector = `metadata.name=${webhookConfigurationName}`;
  return new Informer({ client, resource: mutatingWebhookConfigurations, fieldSelector, clock, log });
}

/**
 * Why the API server rejects a webhook that serves this chain (the server's own certificate first); undefined if it does
 * not. Without a configuration the webhook is not called, so no trust is needed.
 */
export function untrusted(configurations: WebhookConfigurations, chain: string): string | undefined {
  if (!configurations.synced) return `MutatingWebhookConfiguration ${webhookConfigurationName} has not been read yet`;
  const { webhooks = [] } = configurations.get(webhookConfigurationName) ?? {};
  const distrusting = webhooks.find(({ clientConfig }) => !isTrusted(chain, bundleOf(clientConfig)));
  return (
    distrusting &&
    `MutatingWebhookConfiguration ${webhookConfigurationName} does not trust the certificate of this process: ` +
      `the caBundle of ${distrusting.name} has no CA for it`
  );
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
