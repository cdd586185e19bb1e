// Parts that several pages are made of.

import { h } from "./dom.js";
import { NONE, percent } from "./format.js";

export function card(title, { note, actions, key, label, wide } = {}, ...children) {
    const id = `card-${(key ?? title).toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
    return h(
        "section",
        { class: wide ? "card wide" : "card", key: id, "aria-labelledby": id },
        h(
            "div",
            { class: "card-head" },
            h("h2", { id, class: "card-title" }, title, label),
            note ? h("p", { class: "card-note" }, note) : null,
            actions ? h("div", { class: "card-actions" }, actions) : null,
        ),
        children,
    );
}

export function figure(name, value, { unit, note, tone } = {}) {
    return h(
        "div",
        { class: "figure", key: name },
        h("dt", null, name),
        h(
            "dd",
            { class: tone ? `figure-value ${tone}` : "figure-value" },
            value,
            unit ? h("span", { class: "unit" }, ` ${unit}`) : null,
        ),
        note ? h("dd", { class: "figure-note" }, note) : null,
    );
}

export function figures(...children) {
    return h("dl", { class: "figures" }, children);
}

// A value with its unit apart: "4.2 ms" → big and small.
export function split(text) {
    const at = text.indexOf(" ");
    return at < 0 ? [text, {}] : [text.slice(0, at), { unit: text.slice(at + 1) }];
}

export function chip(text, tone = "plain", title) {
    return h("span", { class: `chip ${tone}`, title }, text);
}

// A share as a bar and a number; the bar is for the eye alone.
export function bar(share, { tone = "", mark, text } = {}) {
    const known = Number.isFinite(share);
    return h(
        "span",
        { class: "bar-cell" },
        h(
            "span",
            { class: "bar", "aria-hidden": "true" },
            h("span", {
                class: `bar-fill ${tone}`,
                style: { width: `${known ? Math.max(0, Math.min(1, share)) * 100 : 0}%` },
            }),
            mark === undefined
                ? null
                : h("span", { class: "bar-mark", style: { left: `${mark * 100}%` } }),
        ),
        h("span", { class: "bar-text" }, text ?? (known ? percent(share) : NONE)),
    );
}

// Columns: {name, cell(row), align}. On a phone each row becomes a block with names; that it is a
// table is said by roles, since a browser no longer takes it for one there.
export function table(caption, columns, rows, { key, empty } = {}) {
    if (rows.length === 0) return h("p", { class: "empty", key: "empty" }, empty);
    return h(
        "div",
        { class: "table-wrap", key: "table", tabindex: "0", role: "region", "aria-label": caption },
        h(
            "table",
            { role: "table" },
            h("caption", { class: "unseen" }, caption),
            h(
                "thead",
                { role: "rowgroup" },
                h(
                    "tr",
                    { role: "row" },
                    columns.map((each) =>
                        h(
                            "th",
                            {
                                key: each.name,
                                role: "columnheader",
                                scope: "col",
                                class: each.align ?? null,
                            },
                            each.name,
                        ),
                    ),
                ),
            ),
            h(
                "tbody",
                { role: "rowgroup" },
                rows.map((row) =>
                    h(
                        "tr",
                        { key: key(row), role: "row" },
                        columns.map((each, number) =>
                            h(
                                number === 0 ? "th" : "td",
                                {
                                    key: each.name,
                                    role: number === 0 ? "rowheader" : "cell",
                                    scope: number === 0 ? "row" : null,
                                    class: each.align ?? null,
                                    "data-name": each.name,
                                },
                                h("span", { class: "cell" }, each.cell(row)),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    );
}

export function button(text, onclick, { kind = "", disabled = false, label, pressed, key } = {}) {
    return h(
        "button",
        {
            key,
            type: "button",
            class: `button ${kind}`,
            disabled,
            onclick,
            "aria-label": label,
            "aria-pressed": pressed === undefined ? null : String(pressed),
        },
        text,
    );
}

export function choice(name, value, options, onchange) {
    const id = `choice-${name.toLowerCase().replaceAll(" ", "-")}`;
    return h(
        "span",
        { class: "choice", key: name },
        h("label", { class: "choice-name", for: id }, name),
        h(
            "select",
            { id, value, onchange: (event) => onchange(event.target.value) },
            options.map((each) => {
                const [key, text] = Array.isArray(each) ? each : [each, each];
                return h("option", { key, value: key, selected: key === value }, text);
            }),
        ),
    );
}

export function page(title, about, ...children) {
    return [
        h(
            "div",
            { class: "page-head", key: "head" },
            h("h1", null, title),
            about ? h("div", { class: "page-about" }, about) : null,
        ),
        children,
    ];
}

export function trouble(error) {
    return h(
        "div",
        { class: "trouble", role: "alert", key: "trouble" },
        h("strong", null, sentence(error.what ?? error.message)),
        error.remedy ? h("span", null, ` ${sentence(error.remedy)}`) : null,
    );
}

export function sentence(text) {
    const trimmed = text.trim();
    if (!trimmed) return "";
    const ended = /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
    return ended[0].toUpperCase() + ended.slice(1);
}

// `code` in words of ours is shown as code.
export function words(text) {
    return text.split("`").map((part, number) => (number % 2 ? h("code", null, part) : part));
}
