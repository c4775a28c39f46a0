import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOf } from '../base/errors.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { CallSignal } from './call-signal.ts';

const timeoutMs = 100;

function begin() {
  const clock = new ManualClock();
  const call = new CallSignal('unary', timeoutMs, clock);
  return { clock, call, reason: () => call.signal.aborted && codeOf(call.signal.reason) };
}

test('a call that is not answered in time is aborted', () => {
  const { clock, reason } = begin();
  clock.advance(timeoutMs - 1);
  assert.equal(reason(), false);
  clock.advance(1);
  assert.equal(reason(), 'DeadlineExceeded');
});

test('a caller that leaves early has cancelled, and one that leaves at its deadline has timed out', () => {
  for (const [leavesAfterMs, expected] of [
    [50, 'Cancelled'],
    [timeoutMs - 5, 'DeadlineExceeded'], // its deadline started before the call arrived
  ] as const) {
    const { clock, call, reason } = begin();
    clock.advance(leavesAfterMs);
    call.callerLeft();
    assert.equal(reason(), expected);
  }
});

test('an answered call is not aborted', () => {
  const { clock, call, reason } = begin();
  call.release();
  call.callerLeft();
  clock.advance(timeoutMs);
  assert.equal(reason(), false);
  assert.equal(clock.timers, 0);
});

test('a stream without a deadline lasts as long as its caller listens', () => {
  const clock = new ManualClock();
  const call = new CallSignal('stream', Number.POSITIVE_INFINITY, clock);
  assert.equal(clock.timers, 0);
  call.callerLeft();
  assert.equal(codeOf(call.signal.reason), 'Cancelled');
});
