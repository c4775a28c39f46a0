import { type Metric, Registry } from 'prom-client';

/** Prometheus' text format, which every version of it reads. */
export const contentType: string = Registry.PROMETHEUS_CONTENT_TYPE;

/** A registry of its own each time: a process adds metrics when it has begun to serve, and nothing is kept for nobody. */
export function exposition(metrics: readonly Metric[]): Promise<string> {
  const registry = new Registry();
  for (const metric of metrics) registry.registerMetric(metric);
  return registry.metrics();
}
