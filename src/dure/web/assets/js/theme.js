// Light, dark, or as the system has it. Runs before anything is painted, so it is no module.
(() => {
    const KEY = "dure-theme";
    const root = document.documentElement;
    let chosen = "system";
    try {
        chosen = localStorage.getItem(KEY) ?? "system";
    } catch {
        // No storage: the choice holds for this page.
    }
    const dark = matchMedia("(prefers-color-scheme: dark)");
    // What the style sheet goes by: one of the two, whoever chose it.
    const paint = () => {
        const theme = root.dataset.theme;
        root.dataset.shade = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
        window.dispatchEvent(new Event("themechange"));
    };
    root.dataset.theme = chosen;
    paint();
    window.dureTheme = {
        get: () => root.dataset.theme,
        set: (theme) => {
            root.dataset.theme = theme;
            try {
                localStorage.setItem(KEY, theme);
            } catch {
                // As above.
            }
            paint();
        },
    };
    dark.addEventListener("change", paint);
})();
