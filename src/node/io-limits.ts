/** Holds pods to the IO limits of their volumes. */
export interface VolumeLimits {
  /** A pod was just given the volume. Returns at once and never throws: the pod does not wait for its limits. */
  published(volumeId: string): void;
}
