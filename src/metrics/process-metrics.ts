import { Counter, Gauge, type Metric } from 'prom-client';

/** What the process itself takes, under the names that every Prometheus client uses. */
export function processMetrics(): readonly Metric[] {
  return [
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Resident memory size in bytes.',
      registers: [],
      collect() {
        this.set(process.memoryUsage.rss());
      },
    }),
    new Counter({
      name: 'process_cpu_seconds_total',
      help: 'Total user and system CPU time spent in seconds.',
      registers: [],
      collect() {
        const { user, system } = process.cpuUsage();
        this.reset();
        this.inc((user + system) / 1e6);
      },
    }),
    new Gauge({
      name: 'process_start_time_seconds',
      help: 'Start time of the process since unix epoch in seconds.',
      registers: [],
      collect() {
        this.set(Math.round(Date.now() / 1000 - process.uptime()));
      },
    }),
  ];
}
