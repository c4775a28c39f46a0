export type Labels = Readonly<Record<string, string>>;

/** One figure of a metric. No two of a metric have the same labels, and all have labels of the same names. */
export interface Sample {
  readonly labels?: Labels;
  readonly value: number;
  /** What stands behind the metric's name: a histogram's figures are of several kinds. */
  readonly suffix?: '_bucket' | '_sum' | '_count';
}

/** Something that can be asked for its figures. Their names are for ever: people have dashboards and alerts on them. */
export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';

  /** The figures of this moment. */
  read(): readonly Sample[] | Promise<readonly Sample[]>;
}
