// Colours by name, as the style sheet has them for the theme of now; the same tenant, the same colour.

const SLOTS = 8;
const given = new Map();
let read = new Map();

addEventListener("themechange", () => {
    read = new Map();
});

export function colour(name) {
    if (!read.has(name)) {
        const style = getComputedStyle(document.documentElement);
        read.set(name, style.getPropertyValue(`--${name}`).trim());
    }
    return read.get(name);
}

export function slotOf(tenant) {
    if (!given.has(tenant)) given.set(tenant, given.size % SLOTS);
    return given.get(tenant);
}

export function tenantColour(tenant) {
    return colour(`tone-${slotOf(tenant)}`);
}
