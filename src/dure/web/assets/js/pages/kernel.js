// Level 1: who runs on a GPU's compute units now, how promises are kept, and by which policy.

import { slotOf } from "../colours.js";
import { lineChart } from "../charts.js";
import { h } from "../dom.js";
import { bytes, clock, digits, duration, grouped, known, NONE, percent } from "../format.js";
import { Live } from "../live.js";
import {
    button,
    card,
    chip,
    choice,
    figure,
    figures,
    page,
    split,
    table,
    words,
} from "../parts.js";
import { drawTimeline, SquadLog } from "../timeline.js";
import { adviceCard } from "./advice.js";
import { choosePolicy } from "./policy.js";
import { swatch, tenantsCard } from "./tenants.js";

const STATUS_MS = 1000;
const TIMELINE_MS = 400;
const SERIES_MS = 5000;
const ADVICE_MS = 3000;
const SPANS = { 500: "0.5 s", 1000: "1 s", 2000: "2 s", 5000: "5 s", 10000: "10 s", 30000: "30 s" };
const SERIES_SINCE = "15m";
const EVENTS = 14;

export class KernelPage {
    constructor(ctx, api, may) {
        this.ctx = ctx;
        this.api = api;
        this.may = may;
        this.status = null;
        this.gpu = null;
        this.span = 1000;
        this.frozen = false;
        this.log = new SquadLog(32_000);
        this.series = {};
        this.advice = null;
        this.canvas = null;
        this.redraw = () => this.paint();
    }

    begin() {
        this.loops = [
            new Live(STATUS_MS, (signal) => this.look(signal), this.ctx.told),
            new Live(
                TIMELINE_MS,
                (signal) => this.follow(signal),
                () => {},
            ),
            new Live(
                SERIES_MS,
                (signal) => this.measure(signal),
                () => {},
            ),
            new Live(
                ADVICE_MS,
                (signal) => this.heed(signal),
                () => {},
            ),
        ];
        addEventListener("themechange", this.redraw);
        addEventListener("resize", this.redraw);
        this.draw();
    }

    end() {
        for (const each of this.loops) each.end();
        removeEventListener("themechange", this.redraw);
        removeEventListener("resize", this.redraw);
    }

    async look(signal) {
        this.status = await this.api.get("/v1/status", {}, { signal });
        const known = this.status.gpus.some((each) => each.uuid === this.gpu);
        if (!known) this.watch(this.status.gpus[0]?.uuid ?? null);
        this.draw();
    }

    watch(uuid) {
        this.gpu = uuid;
        this.log.clear();
        this.series = {};
        for (const each of this.loops.slice(1)) each.now();
    }

    async follow(signal) {
        if (this.gpu === null) return;
        const asked = {
            gpu: this.gpu,
            seconds: 30,
            after: this.log.gpu === this.gpu ? this.log.after : 0,
        };
        const answer = await this.api.get("/v1/timeline", asked, { signal });
        if (this.frozen) return;
        this.log.add(answer);
        this.paint();
    }

    async measure(signal) {
        if (this.gpu === null) return;
        const asked = { since: SERIES_SINCE, label: `gpu=${this.gpu}` };
        const names = {
            utilization: "dure_gpu_utilization_ratio",
            active: "dure_gpu_sm_active_ratio",
            memory: "dure_gpu_memory_used_bytes",
            power: "dure_gpu_power_watts",
        };
        const found = await Promise.all(
            Object.values(names).map((name) =>
                this.api.get("/v1/series", { name, ...asked }, { signal }),
            ),
        );
        Object.keys(names).forEach((key, number) => {
            this.series[key] = found[number];
        });
        this.draw();
    }

    async heed(signal) {
        this.advice = await this.api.get("/v1/policy/advice", {}, { signal });
        this.draw();
    }

    paint() {
        if (this.canvas?.isConnected) drawTimeline(this.canvas, this.log, this.span);
    }

    draw() {
        const status = this.status;
        if (status === null) {
            this.ctx.draw(
                page("Kernel", "Which tenants' kernels run on this GPU now, and where on it."),
                h("p", { class: "empty" }, "Asking the agent…"),
            );
            return;
        }
        const gpu = status.gpus.find((each) => each.uuid === this.gpu);
        if (!gpu) {
            this.ctx.draw(
                page("Kernel"),
                h("p", { class: "empty" }, "This agent looks after no GPU."),
            );
            return;
        }
        const tenants = status.tenants.filter((each) => each.gpu === this.gpu || each.gpu === null);
        for (const each of tenants) slotOf(each.name);
        this.ctx.draw(
            page("Kernel", this.about(gpu), this.switcher(status)),
            this.summary(gpu),
            adviceCard(this.advice, gpu.uuid, this.may, (wanted) => this.change(gpu, wanted)),
            this.timeline(gpu, tenants),
            tenantsCard(this.api, tenants),
            this.hardware(gpu),
            this.events(status.events),
        );
        this.paint();
    }

    about(gpu) {
        return [
            h("strong", null, gpu.name),
            ` · GPU ${gpu.index} · ${gpu.sms} SMs · ${bytes(gpu.memory_bytes)} · `,
            this.status.agent.sharing === "mps" ? "side by side (MPS)" : "in turns (isolated)",
        ];
    }

    switcher(status) {
        if (status.gpus.length < 2) return null;
        return h(
            "div",
            { class: "toolbar", key: "gpu" },
            choice(
                "GPU",
                this.gpu,
                status.gpus.map((each) => [each.uuid, `${each.index}: ${each.name}`]),
                (uuid) => {
                    this.watch(uuid);
                    this.draw();
                },
            ),
        );
    }

    summary(gpu) {
        const [decision, unit] = split(duration(gpu.tick_ns));
        return h(
            "section",
            { class: "card summary", key: "summary", "aria-label": "Now" },
            h(
                "div",
                { class: "policy-now" },
                h("span", { class: "policy-label" }, "Policy"),
                h("span", { class: "policy-name", id: "policy-name" }, gpu.policy),
                button("Change…", () => this.change(gpu), {
                    disabled: !this.may.changes,
                    key: "change",
                }),
                this.may.changes
                    ? null
                    : h(
                          "span",
                          { class: "hint" },
                          words(`This page may only look: ${this.may.remedy}.`),
                      ),
            ),
            figures(
                figure("SM busy", ...split(percent(gpu.utilization))),
                figure("Memory", ...split(bytes(gpu.memory_used_bytes))),
                figure("Power", known(gpu.power_w) ? digits(gpu.power_w) : NONE, { unit: "W" }),
                figure(
                    "Squads",
                    gpu.gated ? digits(gpu.edges_per_s) : NONE,
                    gpu.gated ? { unit: "/s" } : { note: "gate open" },
                ),
                figure("Decision", decision, unit),
                figure("Processes", grouped(gpu.clients), { unit: `of ${gpu.client_slots}` }),
            ),
            gpu.gate_note
                ? h("p", { class: "hint gate" }, `Launches are not judged: ${gpu.gate_note}.`)
                : null,
        );
    }

    timeline(gpu, tenants) {
        const sums = this.log.sums(this.span);
        const shown = tenants.filter((each) =>
            sums.tenants.some((one) => one.tenant === each.name),
        );
        const told = sums.tenants
            .map((each) => `${each.tenant} ran ${percent(each.ran)}`)
            .join(", ");
        return card(
            "Squads timeline",
            {
                note: `Each column is one decision of the agent (20 ms); up the side are the compute units.`,
                wide: true,
                actions: [
                    choice("Window", String(this.span), Object.entries(SPANS), (value) => {
                        this.span = Number(value);
                        this.draw();
                    }),
                    button(
                        this.frozen ? "Go on" : "Hold",
                        () => {
                            this.frozen = !this.frozen;
                            this.draw();
                        },
                        {
                            pressed: this.frozen,
                            key: "hold",
                            label: this.frozen ? "Go on with the timeline" : "Hold the timeline",
                        },
                    ),
                ],
            },
            h("canvas", {
                class: "timeline",
                key: "canvas",
                role: "img",
                "aria-label": `Squads of the last ${SPANS[this.span]}: ${told || "nobody ran"}; bubbles ${percent(sums.bubble)}.`,
                made: (node) => {
                    this.canvas = node;
                },
            }),
            h(
                "ul",
                { class: "legend", key: "legend" },
                shown.map((each) => h("li", { key: each.name }, swatch(each.name), each.name)),
                h(
                    "li",
                    { key: "bubble" },
                    h("span", { class: "swatch hatched", "aria-hidden": "true" }),
                    `bubble ${percent(sums.bubble)}`,
                ),
                h(
                    "li",
                    { key: "idle" },
                    h("span", { class: "swatch idle", "aria-hidden": "true" }),
                    "no work",
                ),
            ),
            h(
                "details",
                { key: "table" },
                h("summary", null, "As a table"),
                table(
                    "Shares of the time window",
                    [
                        { name: "Tenant", cell: (row) => row.tenant },
                        { name: "Ran", align: "number", cell: (row) => percent(row.ran) },
                        { name: "Had work", align: "number", cell: (row) => percent(row.wanted) },
                        { name: "Held", align: "number", cell: (row) => percent(row.held) },
                        { name: "On SMs", cell: (row) => row.sms.slice(0, 4).join(", ") },
                    ],
                    sums.tenants,
                    { key: (row) => row.tenant, empty: "Nobody ran in this window." },
                ),
            ),
        );
    }

    hardware(gpu) {
        const uses = { tone: "accent" };
        const points = (key) =>
            (this.series[key]?.series[0]?.points ?? []).map((each) => [each.at_ms, each.last]);
        const active = points("active");
        const span = this.series.utilization
            ? [this.series.utilization.start_ms, this.series.utilization.end_ms]
            : null;
        return card(
            "Hardware",
            { note: "Last 15 minutes.", wide: true },
            h(
                "div",
                { class: "charts" },
                lineChart("SM busy", points("utilization"), {
                    format: percent,
                    most: 1,
                    span,
                    ...uses,
                }),
                active.length
                    ? lineChart("SMs active", active, { format: percent, most: 1, span, ...uses })
                    : null,
                lineChart("Memory", points("memory"), {
                    format: bytes,
                    most: gpu.memory_bytes,
                    span,
                    ...uses,
                }),
                lineChart("Power", points("power"), {
                    format: (value) => `${digits(value)} W`,
                    span,
                    ...uses,
                }),
            ),
        );
    }

    events(events) {
        const newest = lastOfEach(events).slice(-EVENTS).reverse();
        return card(
            "Events",
            { note: "The newest first; of those that repeat themselves the last.", wide: true },
            newest.length === 0
                ? h("p", { class: "empty" }, "Nothing happened yet.")
                : h(
                      "ol",
                      { class: "events" },
                      newest.map((each) =>
                          h(
                              "li",
                              { key: `${each.at_unix_s}-${each.text}` },
                              h("time", null, clock(each.at_unix_s * 1000)),
                              chip(
                                  each.kind,
                                  each.kind === "risk" || each.kind === "signal" ? "warn" : "plain",
                              ),
                              h("span", null, each.text),
                          ),
                      ),
                  ),
        );
    }

    async change(gpu, wanted) {
        await choosePolicy(this.api, gpu, wanted);
        this.loops[0].now();
    }
}

// Of events that repeat themselves only the last, as `dure top` has it.
function lastOfEach(events) {
    const kept = new Map();
    for (const each of events) {
        const about = `${each.kind}|${each.tenant}|${each.text.split(",")[0]}`;
        kept.delete(about);
        kept.set(about, each);
    }
    return [...kept.values()];
}
