import { claimExamples } from './claim-examples.ts';
import { otherExamples } from './other-examples.ts';
import { podExamples } from './pod-examples.ts';
import type { Example } from './situations.ts';

/** One situation for each reason, in the order of their codes: the documentation lists the same sentences. */
export const examples: readonly Example[] = [...claimExamples, ...podExamples, ...otherExamples];
