/** What Node 20 lacks, for the oldest Node that the plugin runs on. */
const promises: { withResolvers?: typeof Promise.withResolvers } = Promise;

promises.withResolvers ??= <T>() => {
  let settle: Omit<PromiseWithResolvers<T>, 'promise'> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...settle } as PromiseWithResolvers<T>; // a promise calls its executor at once
};

const maps: { groupBy?: typeof Map.groupBy } = Map;

maps.groupBy ??= (items, keyOf) => {
  const groups = new Map();
  let index = 0;
  for (const item of items) {
    const key = keyOf(item, index++);
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return groups;
};
