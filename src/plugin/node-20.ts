/** What Node 20 lacks, for the oldest Node that the plugin runs on. */
const promises: { withResolvers?: typeof Promise.withResolvers } = Promise;

promises.withResolvers ??= <T>() => {
  let settle: Omit<PromiseWithResolvers<T>, 'promise'> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...settle } as PromiseWithResolvers<T>; // a promise calls its executor at once
};
