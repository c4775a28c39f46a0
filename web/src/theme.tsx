import { useEffect, useState } from 'preact/hooks';
import { Icon } from './parts/icons.tsx';

const themes = ['auto', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];
const key = 'moorage-theme';

/** As the system, or as chosen. */
export function ThemeButton() {
  const [theme, setTheme] = useState(() => (localStorage.getItem(key) as Theme | null) ?? 'auto');
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    localStorage.setItem(key, theme);
  }, [theme]);
  const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'auto';
  return (
    <button type="button" class="quiet theme" onClick={() => setTheme(next)} aria-label={`Theme: ${theme}`}>
      <Icon name="theme" size={18} />
      <span>{theme}</span>
    </button>
  );
}
