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
    root.dataset.theme = chosen;
    window.dureTheme = {
        get: () => root.dataset.theme,
        set: (theme) => {
            root.dataset.theme = theme;
            try {
                localStorage.setItem(KEY, theme);
            } catch {
                // As above.
            }
            window.dispatchEvent(new Event("themechange"));
        },
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
        window.dispatchEvent(new Event("themechange")),
    );
})();
