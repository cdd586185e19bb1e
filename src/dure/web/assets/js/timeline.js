// The squads timeline: time to the right, compute units upwards, a tenant's kernels in its colour,
// bubbles (somebody had work, nobody's kernels ran) hatched. Drawn on a canvas, told in a table.

import { colour, tenantColour } from "./colours.js";

const REWRITTEN = 60; // slices that may still change: more than a second of ticks

export class SquadLog {
    // Keeps the newest slices of one GPU, at most as long as anybody may look back.
    constructor(keptMs) {
        this.keptMs = keptMs;
        this.clear();
    }

    clear() {
        this.slices = [];
        this.last = 0;
        this.sms = 0;
        this.gpu = null;
    }

    get after() {
        return Math.max(0, this.last - REWRITTEN);
    }

    add(answer) {
        if (answer.gpu !== this.gpu || answer.last < this.last) this.clear();
        this.gpu = answer.gpu;
        this.sms = answer.sms;
        this.last = answer.last;
        const first = answer.slices[0]?.number ?? Infinity;
        const kept = this.slices.filter((each) => each.number < first);
        this.slices = [...kept, ...answer.slices];
        const oldest = (this.slices.at(-1)?.at_ms ?? 0) - this.keptMs;
        this.slices = this.slices.filter((each) => each.at_ms >= oldest);
    }

    // Shares of a window, by tenant, and of bubbles; what a screen reader is told.
    sums(spanMs) {
        const end = this.end;
        const within = this.slices.filter((each) => each.at_ms >= end - spanMs);
        const length = within.reduce((sum, each) => sum + each.length_ms, 0) || 1;
        const tenants = new Map();
        let bubble = 0;
        let squads = 0;
        for (const slice of within) {
            bubble += slice.bubble * slice.length_ms;
            squads += slice.squads;
            for (const part of slice.parts) {
                const sum = tenants.get(part.tenant) ?? {
                    ran: 0,
                    held: 0,
                    wanted: 0,
                    sms: new Set(),
                };
                sum.ran += part.ran * slice.length_ms;
                sum.held += part.held * slice.length_ms;
                sum.wanted += part.wanted * slice.length_ms;
                sum.sms.add(`${part.sm_first}–${part.sm_first + part.sm_count - 1}`);
                tenants.set(part.tenant, sum);
            }
        }
        return {
            bubble: bubble / length,
            squadsPerS: (squads * 1000) / length,
            tenants: [...tenants].map(([tenant, sum]) => ({
                tenant,
                ran: sum.ran / length,
                held: sum.held / length,
                wanted: sum.wanted / length,
                sms: [...sum.sms],
            })),
        };
    }

    get end() {
        const last = this.slices.at(-1);
        return last ? last.at_ms + last.length_ms : 0;
    }
}

export function drawTimeline(canvas, log, spanMs) {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (width === 0 || height === 0) return;
    if (
        canvas.width !== Math.round(width * ratio) ||
        canvas.height !== Math.round(height * ratio)
    ) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
    }
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    const room = { left: 34, right: 6, top: 6, bottom: 18 };
    const frame = {
        x: room.left,
        y: room.top,
        width: width - room.left - room.right,
        height: height - room.top - room.bottom,
    };
    axes(paint, frame, log, spanMs);
    const end = log.end;
    const scale = frame.width / spanMs;
    paint.save();
    paint.beginPath();
    paint.rect(frame.x, frame.y, frame.width, frame.height);
    paint.clip();
    const hatch = hatching(paint);
    for (const slice of log.slices) {
        if (slice.at_ms + slice.length_ms < end - spanMs) continue;
        const x = frame.x + frame.width - (end - slice.at_ms) * scale;
        drawSlice(paint, slice, { x, width: slice.length_ms * scale, frame, sms: log.sms, hatch });
    }
    paint.restore();
}

// Tenants that share compute units follow one another within a slice, as long as each ran; those
// on units of their own lie above each other. What of the wish is left over is a bubble.
function drawSlice(paint, slice, { x, width, frame, sms, hatch }) {
    const unit = frame.height / sms;
    const lanes = [];
    for (const part of slice.parts) {
        if (part.ran <= 0) continue;
        const lane =
            lanes.find((each) => overlaps(each, part)) ??
            lanes[lanes.push({ ...part, used: 0 }) - 1];
        const start = lane.used;
        lane.used = Math.min(1, lane.used + part.ran);
        paint.fillStyle = tenantColour(part.tenant);
        paint.fillRect(
            x + start * width,
            frame.y + frame.height - (part.sm_first + part.sm_count) * unit,
            Math.max(0.5, (lane.used - start) * width + 0.3),
            part.sm_count * unit,
        );
    }
    if (slice.bubble > 0.01) {
        const share = Math.min(1, slice.bubble);
        paint.fillStyle = hatch;
        paint.fillRect(
            x + (1 - share) * width,
            frame.y,
            Math.max(0.5, share * width),
            frame.height,
        );
    }
}

function overlaps(lane, part) {
    return (
        part.sm_first < lane.sm_first + lane.sm_count &&
        lane.sm_first < part.sm_first + part.sm_count
    );
}

function axes(paint, frame, log, spanMs) {
    paint.fillStyle = colour("sunken");
    paint.fillRect(frame.x, frame.y, frame.width, frame.height);
    paint.fillStyle = colour("muted");
    paint.font = "11px system-ui, sans-serif";
    paint.textBaseline = "middle";
    paint.textAlign = "right";
    if (log.sms) {
        paint.fillText(String(log.sms), frame.x - 6, frame.y + 6);
        paint.fillText("0", frame.x - 6, frame.y + frame.height - 5);
        paint.save();
        paint.translate(9, frame.y + frame.height / 2);
        paint.rotate(-Math.PI / 2);
        paint.textAlign = "center";
        paint.fillText("SMs", 0, 0);
        paint.restore();
    }
    paint.strokeStyle = colour("line");
    paint.lineWidth = 1;
    paint.textBaseline = "alphabetic";
    const step =
        spanMs <= 500
            ? 100
            : spanMs <= 1000
              ? 200
              : spanMs <= 5000
                ? 1000
                : spanMs <= 10000
                  ? 2000
                  : 5000;
    for (let back = 0; back <= spanMs; back += step) {
        const x = Math.round(frame.x + frame.width - (back / spanMs) * frame.width) + 0.5;
        paint.beginPath();
        paint.moveTo(x, frame.y + frame.height);
        paint.lineTo(x, frame.y + frame.height + 4);
        paint.stroke();
        paint.textAlign = back === 0 ? "right" : "center";
        if (back < spanMs)
            paint.fillText(back ? `−${back / 1000} s` : "now", x, frame.y + frame.height + 15);
    }
}

let tile = null;
let tileFor = "";

function hatching(paint) {
    const ink = colour("bubble");
    if (tileFor !== ink) {
        tile = document.createElement("canvas");
        tile.width = tile.height = 6;
        const brush = tile.getContext("2d");
        brush.fillStyle = colour("bubble-ground");
        brush.fillRect(0, 0, 6, 6);
        brush.strokeStyle = ink;
        brush.lineWidth = 1.4;
        brush.beginPath();
        brush.moveTo(-1, 7);
        brush.lineTo(7, -1);
        brush.moveTo(-2, 2);
        brush.lineTo(2, -2);
        brush.moveTo(4, 8);
        brush.lineTo(8, 4);
        brush.stroke();
        tileFor = ink;
    }
    return paint.createPattern(tile, "repeat");
}
