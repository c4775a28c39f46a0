import { webhookConfigurationName } from '../api/names.ts';
import { ApiError } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import {
  type Deployment,
  deployments,
  mutatingWebhookConfigurations,
  type Stored,
  validatingWebhookConfigurations,
} from '../kube/resource.ts';
import { hasReadyEndpoint } from './doctor/controller.ts';
import { type EndpointSlice, endpointSlices, type WebhookConfiguration } from './doctor/observed.ts';
import type { Problem } from './status.ts';

/** Whether a controller is ready to do what the objects request, and its webhook can answer the API server. */
export async function readControllerProblems(client: KubeClient, signal: AbortSignal): Promise<readonly Problem[]> {
  const problems = await Promise.all([
    orUnknown('controller', async () => {
      // Or TopoLVM's, where that is installed.
      const labelSelector = 'app.kubernetes.io/name in (moorage,topolvm)';
      return controllerProblems((await client.list(deployments, { labelSelector, signal })).items);
    }),
    orUnknown('webhook', async () => {
      const name = webhookConfigurationName;
      const found = await Promise.all([
        client.get(validatingWebhookConfigurations, name, { signal }),
        client.get(mutatingWebhookConfigurations, name, { signal }),
      ]);
      const configurations = found.filter((each) => each !== undefined);
      const namespaces = new Set(configurations.flatMap(servicesOf).map(({ namespace }) => namespace));
      const slices = await Promise.all(
        [...namespaces].map((namespace) => client.list(endpointSlices, { namespace, signal })),
      );
      return webhookProblems(
        configurations,
        slices.flatMap(({ items }) => items),
      );
    }),
  ]);
  return problems.flat();
}

/** What the user may not read is unknown, which is not the same as no problem. */
async function orUnknown(about: string, read: () => Promise<readonly Problem[]>): Promise<readonly Problem[]> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403) throw error;
    return [{ severity: 'warning', about, what: `unknown: ${error.message}` }];
  }
}

const seeDoctor = 'see kubectl moorage doctor';

export function controllerProblems(found: readonly Stored<Deployment>[]): readonly Problem[] {
  const controllers = found.filter(
    ({ spec }) => spec?.selector.matchLabels?.['app.kubernetes.io/component'] === 'controller',
  );
  const effect = 'so no volume is created, moved or removed';
  if (controllers.length === 0) {
    return [{ severity: 'error', about: 'controller', what: `there is none, ${effect}: ${seeDoctor}` }];
  }
  return controllers.flatMap(({ metadata, spec, status }): Problem[] => {
    const { replicas = 1 } = spec ?? {};
    const { readyReplicas = 0 } = status ?? {};
    if (readyReplicas > 0 && readyReplicas >= replicas) return [];
    const ready = `${readyReplicas} of ${replicas} replicas ready`;
    const about = `controller ${metadata.name}`;
    return readyReplicas > 0
      ? [{ severity: 'warning', about, what: `${ready}: ${seeDoctor}` }]
      : [{ severity: 'error', about, what: `${ready}, ${effect}: ${seeDoctor}` }];
  });
}

export function webhookProblems(
  configurations: readonly Stored<WebhookConfiguration>[],
  slices: readonly Stored<EndpointSlice>[],
): readonly Problem[] {
  const names = new Set(configurations.flatMap(servicesOf).map(({ name }) => name));
  return [...names]
    .filter((name) => !hasReadyEndpoint(name, slices))
    .map((name) => ({
      severity: 'error',
      about: `webhook configuration ${webhookConfigurationName}`,
      what: `the API server cannot call it: Service ${name} has no ready endpoint: ${seeDoctor}`,
    }));
}

function servicesOf({ webhooks = [] }: WebhookConfiguration) {
  return webhooks.flatMap(({ clientConfig }) => clientConfig.service ?? []);
}
