// A question over the page: keyboard focus stays in it, Escape leaves it, focus returns after it.

import { h, render } from "./dom.js";

const box = () => document.getElementById("dialog");

// Shows what `view(redraw, close)` describes, anew at each redraw; resolves with what close is told.
export function ask(title, view) {
    const dialog = box();
    return new Promise((resolve) => {
        const close = (value) => {
            if (dialog.open) dialog.close();
            dialog.onclose = null;
            render(dialog);
            resolve(value);
        };
        const redraw = () =>
            render(
                dialog,
                h("h2", { id: "dialog-title", class: "dialog-title" }, title),
                view(redraw, close),
            );
        dialog.onclose = () => close(undefined);
        redraw();
        dialog.showModal();
    });
}

export function buttons(...children) {
    return h("div", { class: "dialog-buttons" }, children);
}

let toasts = [];

export function toast(text, kind = "good") {
    const made = { text, kind, key: `${Date.now()}-${Math.random()}` };
    toasts = [...toasts.slice(-2), made];
    show();
    setTimeout(() => {
        toasts = toasts.filter((each) => each !== made);
        show();
    }, 8000);
}

function show() {
    render(
        document.getElementById("toasts"),
        toasts.map((each) => h("p", { key: each.key, class: `toast ${each.kind}` }, each.text)),
    );
}
