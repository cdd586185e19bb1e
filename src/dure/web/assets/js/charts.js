// Lines over time, drawn as SVG, with the same in words for those who do not see them.

import { h } from "./dom.js";
import { clock } from "./format.js";

const WIDTH = 320;
const HEIGHT = 96;

// points: [[ms, value]], oldest first. `most`: upper edge; else the highest value.
export function lineChart(name, points, { format, most, least = 0, span, tone = "accent" }) {
    const now = points.at(-1)?.[1];
    const values = points.map(([, value]) => value);
    const top = most ?? Math.max(...values, least + 1e-9) * 1.1;
    const end = span ? span[1] : (points.at(-1)?.[0] ?? 0);
    const start = span ? span[0] : (points[0]?.[0] ?? 0);
    const x = (ms) => ((ms - start) / Math.max(1, end - start)) * WIDTH;
    const y = (value) => HEIGHT - ((value - least) / (top - least)) * HEIGHT;
    const said = points.length
        ? `${name}, from ${clock(start)} to ${clock(end)}: now ${format(now)}, ` +
          `lowest ${format(Math.min(...values))}, highest ${format(Math.max(...values))}.`
        : `${name}: nothing was measured yet.`;
    return h(
        "figure",
        { class: "chart", key: name },
        h(
            "figcaption",
            null,
            h("span", { class: "chart-name" }, name),
            h("span", { class: "chart-now" }, points.length ? format(now) : "–"),
        ),
        h(
            "svg",
            {
                class: `lines ${tone}`,
                viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
                preserveAspectRatio: "none",
                role: "img",
                "aria-label": said,
            },
            [0.25, 0.5, 0.75].map((part) =>
                h("line", {
                    key: part,
                    class: "grid",
                    x1: 0,
                    x2: WIDTH,
                    y1: part * HEIGHT,
                    y2: part * HEIGHT,
                }),
            ),
            points.length > 1
                ? [
                      h("path", {
                          class: "area",
                          d: `${path(points, x, y)}L${f(x(points.at(-1)[0]))} ${HEIGHT}L${f(x(points[0][0]))} ${HEIGHT}Z`,
                      }),
                      h("path", { class: "line", d: path(points, x, y) }),
                  ]
                : null,
        ),
        h(
            "div",
            { class: "chart-ends", "aria-hidden": "true" },
            h("span", null, points.length ? clock(start).slice(0, 5) : ""),
            h("span", null, points.length ? `0–${format(top)}` : ""),
            h("span", null, points.length ? clock(end).slice(0, 5) : ""),
        ),
    );
}

function path(points, x, y) {
    return points
        .map(([ms, value], number) => `${number ? "L" : "M"}${f(x(ms))} ${f(y(value))}`)
        .join("");
}

function f(value) {
    return Math.round(value * 10) / 10;
}

// A ring that is filled by a share.
export function ring(share, { tone = "accent", text, label }) {
    const length = 2 * Math.PI * 17;
    const part = Math.max(0, Math.min(1, share || 0));
    return h(
        "svg",
        { class: `ring ${tone}`, viewBox: "0 0 44 44", role: "img", "aria-label": label },
        h("circle", { class: "ring-rest", cx: 22, cy: 22, r: 17 }),
        h("circle", {
            class: "ring-part",
            cx: 22,
            cy: 22,
            r: 17,
            "stroke-dasharray": `${f(part * length)} ${f(length)}`,
            transform: "rotate(-90 22 22)",
        }),
        h("text", { x: 22, y: 22, "text-anchor": "middle", "dominant-baseline": "central" }, text),
    );
}
