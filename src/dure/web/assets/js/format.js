// Numbers with their units, as people read them. What is not known is a dash.

export const NONE = "–";
const NS = [
    [1e3, 1, "ns"],
    [1e6, 1e3, "µs"],
    [1e9, 1e6, "ms"],
    [60e9, 1e9, "s"],
    [3600e9, 60e9, "min"],
    [86400e9, 3600e9, "h"],
    [Infinity, 86400e9, "d"],
];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function digits(value, figures = 3) {
    if (!known(value)) return NONE;
    const size = Math.abs(value);
    if (size >= 10 ** figures) return grouped(Math.round(value));
    if (size === 0) return "0";
    const places = Math.max(0, figures - 1 - Math.floor(Math.log10(size)));
    return value.toFixed(Math.min(places, 6));
}

export function known(value) {
    return typeof value === "number" && Number.isFinite(value);
}

export function grouped(value) {
    return known(value) ? value.toLocaleString("en").replaceAll(",", "\u202f") : NONE;
}

export function duration(ns) {
    if (!known(ns)) return NONE;
    const size = Math.abs(ns);
    if (size === 0) return "0 s";
    const [, unit, name] = NS.find(([limit]) => size < limit * 0.9995);
    return `${digits(ns / unit)} ${name}`;
}

export function bytes(size) {
    if (!known(size)) return NONE;
    let unit = 0;
    let value = size;
    while (Math.abs(value) >= 1023.5 && unit < BYTES.length - 1) {
        value /= 1024;
        unit += 1;
    }
    return `${unit === 0 ? value : digits(value)} ${BYTES[unit]}`;
}

export function percent(share, places) {
    if (!known(share)) return NONE;
    const value = 100 * share;
    const shown = places ?? (value !== 0 && Math.abs(value) < 10 ? 1 : 0);
    return `${value.toFixed(shown)} %`;
}

export function money(amount, currency) {
    if (!known(amount)) return NONE;
    const size = Math.abs(amount);
    const places = size >= 1000 ? 0 : size >= 0.995 || size === 0 ? 2 : 4;
    const text = amount.toLocaleString("en", {
        minimumFractionDigits: places,
        maximumFractionDigits: places,
    });
    return `${text.replaceAll(",", "\u202f")} ${currency}`;
}

export function grams(g) {
    if (!known(g)) return NONE;
    const size = Math.abs(g);
    if (size >= 999_500) return `${digits(g / 1e6)} t`;
    if (size >= 999.5) return `${digits(g / 1e3)} kg`;
    return `${digits(g)} g`;
}

export function clock(ms) {
    return new Date(ms).toLocaleTimeString("en-GB");
}

export function moment(text) {
    if (!text) return NONE;
    const at = new Date(text);
    const day = at.toLocaleDateString("en-CA");
    const today = new Date().toLocaleDateString("en-CA");
    return day === today ? clock(at) : `${day} ${clock(at).slice(0, 5)}`;
}

export function ago(text) {
    return text ? `${duration(Math.max(0, Date.now() - Date.parse(text)) * 1e6)} ago` : NONE;
}

export function plural(count, one, many = `${one}s`) {
    return `${grouped(count)} ${count === 1 ? one : many}`;
}
