const shapes = {
  anchor:
    'M12 7v14M7.500 11h9M3.500 14.500c.8 4 4 6.500 8.500 6.500s7.700-2.500 8.500-6.500M12 2.300a2.300 2.300 0 1 0 0 4.600 2.300 2.300 0 0 0 0-4.600',
  overview: 'M4 12h4l2.500-7 4 14 2.500-7h3',
  nodes: 'M4 5h16v5H4zM4 14h16v5H4zM7.500 7.500h.01M7.500 16.500h.01',
  volumes:
    'M5 6c0-1.700 3.100-3 7-3s7 1.300 7 3-3.100 3-7 3-7-1.300-7-3v12c0 1.700 3.100 3 7 3s7-1.300 7-3V6M5 12c0 1.700 3.100 3 7 3s7-1.300 7-3',
  moves: 'M4 8h14l-4-4M20 16H6l4 4',
  evacuate: 'M10 4H5v16h5M14 8l4 4-4 4M18 12H9',
  orphans: 'M9.500 14.500l5-5M8 11l-2 2a3.500 3.500 0 0 0 5 5l2-2M16 13l2-2a3.500 3.500 0 0 0-5-5l-2 2M4 4l16 16',
  good: 'M5 12.500l4.500 4.500L19 7.500',
  warning: 'M12 4L2.800 20h18.400zM12 10.500v4M12 17.200v.01',
  bad: 'M8 3h8l5 5v8l-5 5H8l-5-5V8zM9 9l6 6M15 9l-6 6',
  busy: 'M12 3a9 9 0 1 0 9 9M12 7.500V12l3 2',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M16.200 16.200L21 21',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  theme: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  up: 'M12 19V5M6 11l6-6 6 6',
  down: 'M12 5v14M6 13l6 6 6-6',
  claimed: 'M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5',
  scheduled: 'M5 5h14v15H5zM5 10h14M9 3v4M15 3v4',
  created: 'M12 5v14M5 12h14',
  bound: 'M9.500 14.500l5-5M8 11l-2 2a3.500 3.500 0 0 0 5 5l2-2M16 13l2-2a3.500 3.500 0 0 0-5-5l-2 2',
  mounted: 'M12 3v11M7 9l5 5 5-5M4 20h16',
  grown: 'M4 20L20 4M13 4h7v7',
  snapshotted: 'M4 8h4l2-3h4l2 3h4v11H4zM12 10.500a3 3 0 1 0 0 6 3 3 0 0 0 0-6',
  removed: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13',
  to: 'M4 12h15M13 6l6 6-6 6',
  event: 'M12 11.500a.5.5 0 1 0 0 1 .5.5 0 0 0 0-1',
  moved: 'M4 8h14l-4-4M20 16H6l4 4',
} as const;

export type IconName = keyof typeof shapes;

/** Beside a word that says the same: screen readers skip it. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width={size} height={size} aria-hidden="true">
      <path d={shapes[name]} />
    </svg>
  );
}
