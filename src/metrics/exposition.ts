import { type Metric, Registry } from 'prom-client';

/** Prometheus' text format, which every version of Prometheus reads. */
export const contentType: string = Registry.PROMETHEUS_CONTENT_TYPE;

/** A new registry each time: metrics may be added after the server has started, and nothing is kept between scrapes. */
export function exposition(metrics: readonly Metric[]): Promise<string> {
  const registry = new Registry();
  for (const metric of metrics) registry.registerMetric(metric);
  return registry.metrics();
}
