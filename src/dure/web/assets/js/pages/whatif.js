// What if: the work of the last hour again, in virtual time, under another policy.

import { ask, buttons, toast } from "../dialog.js";
import { h } from "../dom.js";
import {
    digits,
    duration,
    grams,
    grouped,
    moment,
    money,
    NONE,
    percent,
    plural,
} from "../format.js";
import { bar, button, card, chip, choice, page, sentence, table, trouble } from "../parts.js";

const PATIENCE_MS = 140_000;
const NOTHING = 0.0005; // a change that rounds to nothing
const FEW = 12;
const SPANS = { 15: "15 minutes", 30: "30 minutes", 60: "hour", 180: "3 hours", 360: "6 hours" };

export class WhatIfPage {
    constructor(ctx, api) {
        this.ctx = ctx;
        this.api = api;
        this.choices = null;
        this.chosen = "";
        this.minutes = "60";
        this.running = false;
        this.result = null;
        this.failed = null;
        this.may = false;
        this.all = false;
    }

    async begin() {
        this.ended = new AbortController();
        this.draw();
        await this.load();
    }

    async load() {
        const { signal } = this.ended;
        try {
            const [choices, person] = await Promise.all([
                this.api.get("/v1/reruns/choices", {}, { signal }),
                this.api.get("/v1/whoami", {}, { signal }),
            ]);
            this.choices = choices;
            this.may = person.role === "admin";
            this.chosen ||=
                choices.policies.find((each) => each !== choices.inForce) ??
                `mode:${choices.modes[0].name}`;
            this.failed = null;
            this.ctx.told(null);
        } catch (error) {
            if (signal.aborted) return;
            if (error.status === 403) this.failed = error;
            else {
                this.ctx.told(error);
                setTimeout(() => signal.aborted || this.load(), 2000);
            }
        }
        if (!signal.aborted) this.draw();
    }

    end() {
        this.ended.abort();
    }

    draw() {
        const head = page(
            "What if",
            "The work of the last hour, run again in virtual time by the same code. Nothing that runs is touched.",
        );
        if (this.choices === null) {
            this.ctx.draw(
                head,
                this.failed
                    ? trouble(this.failed)
                    : h("p", { class: "empty" }, "Asking the centre…"),
            );
            return;
        }
        this.ctx.draw(
            head,
            this.form(),
            this.failed ? trouble(this.failed) : null,
            this.result ? this.shown(this.result) : this.hint(),
        );
    }

    hint() {
        if (this.running)
            return h(
                "p",
                { class: "empty", role: "status", key: "running" },
                "Runs the time twice: under the policy in force and under the other…",
            );
        return h(
            "p",
            { class: "empty", key: "hint" },
            "Choose what to try. A run takes some seconds.",
        );
    }

    form() {
        const options = [
            ...this.choices.policies.map((each) => [
                each,
                `policy ${each}${each === this.choices.inForce ? " (in force)" : ""}`,
            ]),
            ...this.choices.modes.map((each) => [`mode:${each.name}`, each.name]),
        ];
        const mode = this.choices.modes.find((each) => `mode:${each.name}` === this.chosen);
        return h(
            "form",
            {
                class: "toolbar card",
                key: "form",
                "aria-label": "What to try",
                onsubmit: (event) => {
                    event.preventDefault();
                    this.run();
                },
            },
            choice("Try", this.chosen, options, (value) => {
                this.chosen = value;
                this.draw();
            }),
            choice("on the last", this.minutes, Object.entries(SPANS), (value) => {
                this.minutes = value;
                this.draw();
            }),
            h(
                "button",
                { type: "submit", class: "button primary", disabled: this.running, key: "run" },
                this.running ? "Running…" : "Run it again",
            ),
            mode ? h("span", { class: "hint", key: "about" }, sentence(mode.about)) : null,
        );
    }

    async run() {
        this.running = true;
        this.failed = null;
        this.result = null;
        this.draw();
        const tried = this.chosen.startsWith("mode:")
            ? { mode: this.chosen.slice(5) }
            : { policy: this.chosen };
        try {
            const { signal } = this.ended;
            this.result = await this.api.post(
                "/v1/reruns",
                { ...tried, minutes: Number(this.minutes) },
                { signal, patienceMs: PATIENCE_MS },
            );
            toast(`Done in ${digits(this.result.tookSeconds)} s.`);
        } catch (error) {
            if (this.ended.signal.aborted) return;
            this.failed = error;
        }
        this.running = false;
        this.draw();
    }

    shown(result) {
        return [
            card(
                `${result.candidate.name} instead of ${result.inForce.name}`,
                {
                    key: "compared",
                    wide: true,
                    note: `${moment(result.since)} to ${moment(result.until)}: ${plural(result.jobs, "job")}, ${plural(result.services, "service")}.`,
                    actions:
                        this.may &&
                        this.choices.policies.includes(result.candidate.name) &&
                        result.candidate.name !== this.choices.inForce
                            ? button("Put in force…", () => this.apply(result.candidate.name), {
                                  key: "apply",
                              })
                            : null,
                },
                compared(result),
                result.notes.length
                    ? h(
                          "ul",
                          { class: "notes", key: "notes" },
                          result.notes.map((each, number) =>
                              h("li", { key: number, class: "hint" }, sentence(each)),
                          ),
                      )
                    : null,
            ),
            byCluster(result),
            this.differing(result),
        ];
    }

    differing({ differing: jobs }) {
        return card(
            "Jobs placed differently",
            { key: "jobs", wide: true, note: plural(jobs.length, "job") },
            differingTable(this.all ? jobs : jobs.slice(0, FEW)),
            jobs.length > FEW && !this.all
                ? button(
                      `Show all ${jobs.length}`,
                      () => {
                          this.all = true;
                          this.draw();
                      },
                      { key: "all" },
                  )
                : null,
        );
    }

    async apply(name) {
        const sure = await ask(`Put ${name} in force?`, (_, close) => [
            h("p", null, "The planner follows it from its next round on, for the whole fleet."),
            buttons(
                button("Cancel", () => close(false), { key: "cancel" }),
                button("Put in force", () => close(true), { kind: "primary", key: "sure" }),
            ),
        ]);
        if (!sure) return;
        try {
            await this.api.post(`/v1/policies/${encodeURIComponent(name)}/apply`);
            toast(`Policy ${name} is in force.`);
            await this.load();
        } catch (error) {
            toast(sentence(error.message), "bad");
        }
    }
}

function compared({ inForce, candidate, currency }) {
    const cash = (value) => money(value, currency);
    const seconds = (value) => duration(value * 1e9);
    const spent = (side) => side.money.rent + side.money.energy + side.money.transfers;
    const rows = [
        ["Spent: rent, energy, transfers", spent, cash, -1],
        ["Penalties", (side) => side.money.penalties, cash, -1],
        ["Carbon", (side) => side.kgCo2 * 1000, grams, -1],
        ["Jobs that ended", (side) => side.ended, grouped, 1],
        ["Jobs on time", (side) => side.onTimeShare, (value) => percent(value, 1), 1],
        [
            "Service minutes within target",
            (side) => side.withinTargetShare,
            (value) => percent(value, 1),
            1,
        ],
        ["Wait, mean", (side) => side.meanWaitSeconds, seconds, -1],
        ["Wait, 95 % below", (side) => side.p95WaitSeconds, seconds, -1],
        ["Devices held", (side) => side.utilisation, (value) => percent(value, 1), 0],
        ["Fragmentation", (side) => side.fragmentation, (value) => percent(value, 1), -1],
        ["Moves", (side) => side.moves, grouped, 0],
        ["Preemptions", (side) => side.preemptions, grouped, 0],
    ];
    return table(
        "The two runs compared",
        [
            { name: "", cell: ([name]) => name },
            {
                name: `${inForce.name} (in force)`,
                align: "number",
                cell: ([, value, format]) => format(value(inForce)),
            },
            {
                name: candidate.name,
                align: "number",
                cell: ([, value, format]) =>
                    h("span", { class: "strong" }, format(value(candidate))),
            },
            {
                name: "Difference",
                align: "number",
                cell: ([, value, , better]) => difference(value(inForce), value(candidate), better),
            },
        ],
        rows,
        { key: ([name]) => name },
    );
}

function difference(before, after, better) {
    const change = after - before;
    if (Math.abs(change) <= NOTHING * Math.abs(before) || change === 0)
        return h("span", { class: "hint" }, "the same");
    const share =
        before !== 0
            ? `${change > 0 ? "+" : "−"}${percent(Math.abs(change / before))}`
            : change > 0
              ? "more"
              : "less";
    const tone = better === 0 ? "hint" : change * better > 0 ? "good" : "bad";
    const word = better === 0 ? "" : change * better > 0 ? " better" : " worse";
    return h("span", { class: tone }, `${share}${word}`);
}

function byCluster({ inForce, candidate, currency }) {
    const before = new Map(inForce.clusters.map((each) => [each.cluster, each]));
    const most = Math.max(
        ...[...inForce.clusters, ...candidate.clusters].map((each) => each.deviceHours),
        1e-9,
    );
    return card(
        "Where the work would have been",
        { key: "clusters", wide: true, note: "Device-hours, money and carbon by cluster." },
        table(
            "Both runs by cluster",
            [
                { name: "Cluster", cell: (row) => h("span", { class: "strong" }, row.cluster) },
                {
                    name: "Held, in force",
                    cell: (row) =>
                        bar(before.get(row.cluster).deviceHours / most, {
                            tone: "held",
                            text: `${digits(before.get(row.cluster).deviceHours)} h`,
                        }),
                },
                {
                    name: "Held, tried",
                    cell: (row) =>
                        bar(row.deviceHours / most, { text: `${digits(row.deviceHours)} h` }),
                },
                {
                    name: "Money, in force",
                    align: "number",
                    cell: (row) => money(before.get(row.cluster).money, currency),
                },
                {
                    name: "Money, tried",
                    align: "number",
                    cell: (row) => money(row.money, currency),
                },
                {
                    name: "Carbon, in force",
                    align: "number",
                    cell: (row) => grams(before.get(row.cluster).kgCo2 * 1000),
                },
                { name: "Carbon, tried", align: "number", cell: (row) => grams(row.kgCo2 * 1000) },
            ],
            candidate.clusters,
            { key: (row) => row.cluster },
        ),
    );
}

function differingTable(jobs) {
    const wait = (value) => (value === null ? NONE : duration(value * 1e9));
    return table(
        "Jobs that the two runs place differently",
        [
            {
                name: "Job",
                cell: (row) => h("a", { href: `#/jobs/${row.id}`, class: "strong" }, row.name),
            },
            { name: "Tenant", cell: (row) => row.tenant },
            { name: "Kind", cell: (row) => row.kind },
            { name: "Was in", cell: (row) => row.was ?? NONE },
            { name: "In force", cell: (row) => row.inForce ?? NONE },
            {
                name: "Tried",
                cell: (row) => (row.candidate ? chip(row.candidate, "accent") : NONE),
            },
            {
                name: "Wait, in force",
                align: "number",
                cell: (row) => wait(row.inForceWaitSeconds),
            },
            { name: "Wait, tried", align: "number", cell: (row) => wait(row.candidateWaitSeconds) },
        ],
        jobs,
        { key: (row) => row.id, empty: "Both place every job in the same cluster." },
    );
}
