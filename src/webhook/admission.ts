import * as v from 'valibot';
import { InvalidInput } from '../base/errors.ts';

/** What the API server asks about, as much of it as our webhooks need. */
export interface AdmissionRequest<T> {
  readonly namespace: string;
  readonly name: string;
  readonly isDryRun: boolean;
  readonly object: T;
}

/** The response, without its uid. */
export interface Admission {
  readonly allowed: boolean;
  readonly status?: { readonly code: number; readonly message: string };
  readonly warnings?: readonly string[];
  readonly patchType?: 'JSONPatch';
  readonly patch?: string;
}

/** Answers AdmissionReviews of admission.k8s.io/v1 about objects of one kind. */
export function admission<T extends object>(
  kind: string,
  decide: (request: AdmissionRequest<T>) => Admission | Promise<Admission>,
): (review: unknown) => Promise<object> {
  const object = v.custom<T>((given) => typeof given === 'object' && given !== null, `must be a ${kind}`);
  const schema = v.object({
    request: v.object({
      uid: v.string(),
      namespace: v.optional(v.string(), ''),
      name: v.optional(v.string(), ''),
      dryRun: v.optional(v.boolean(), false),
      object,
    }),
  });
  return async (review) => {
    const result = v.safeParse(schema, review);
    if (!result.success) {
      const [issue] = result.issues;
      const where = v.getDotPath(issue) ?? 'the body';
      throw new InvalidInput(
        `${where}: ${issue.message}; send an AdmissionReview of admission.k8s.io/v1 for a ${kind}`,
      );
    }
    const { uid, dryRun: isDryRun, ...request } = result.output.request;
    const response = { uid, ...(await decide({ ...request, isDryRun })) };
    return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response };
  };
}
