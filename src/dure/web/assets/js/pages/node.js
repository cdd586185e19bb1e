// Level 2: which containers of this host may use a GPU now, which wait, and for what.

import { ask, buttons, toast } from "../dialog.js";
import { h } from "../dom.js";
import { bytes, duration, NONE, plural } from "../format.js";
import { LivePage } from "../live.js";
import {
    bar,
    button,
    card,
    chip,
    figure,
    figures,
    page,
    sentence,
    split,
    table,
    trouble,
    words,
} from "../parts.js";

const PERIOD_MS = 1000;
const TONES = {
    running: "good",
    queued: "warn",
    "waiting for memory": "warn",
    "paused by a person": "bad",
    exempt: "plain",
    idle: "plain",
    unmanaged: "plain",
};
const ORDER = Object.keys(TONES);

export class NodePage extends LivePage {
    constructor(ctx, api, may) {
        super(ctx, api, PERIOD_MS);
        this.may = may;
        this.status = undefined;
        this.host = null;
    }

    async look(signal) {
        const status = await this.api.get("/v1/status", {}, { signal });
        this.status = status.containers;
        this.host = status.agent;
        this.gpus = new Map(status.gpus.map((each) => [each.uuid, each.index]));
        this.draw();
    }

    draw() {
        const head = page(
            "Node",
            "Which containers of this host may start GPU work now, and which wait.",
        );
        const status = this.status;
        if (status === undefined) {
            this.ctx.draw(head, h("p", { class: "empty" }, "Asking the agent…"));
            return;
        }
        if (status === null) {
            this.ctx.draw(
                head,
                h(
                    "section",
                    { class: "card", key: "off" },
                    h(
                        "p",
                        { class: "empty" },
                        words(
                            "This agent does not manage containers. Start it with `dure agent --manage-containers` on a host with Docker.",
                        ),
                    ),
                ),
            );
            return;
        }
        this.ctx.draw(
            head,
            this.summary(status),
            status.troubles.map((each) => trouble({ what: each })),
            this.queue(status),
            this.containers(status),
        );
    }

    summary(status) {
        const count = (state) => status.containers.filter((each) => each.state === state).length;
        const queued = count("queued") + count("waiting for memory");
        return h(
            "section",
            { class: "card summary", key: "summary", "aria-label": "Now" },
            h(
                "div",
                { class: "policy-now" },
                h("span", { class: "policy-label" }, "Strategy"),
                h("span", { class: "policy-name" }, status.strategy),
                status.dry_run ? chip("dry run: nothing is paused", "warn") : null,
            ),
            figures(
                figure("Containers", String(status.containers.length), {
                    note: status.without_gpu ? `${status.without_gpu} more without a GPU` : "",
                }),
                figure("Running", String(count("running"))),
                figure("Waiting", String(queued), { tone: queued ? "warn" : "" }),
                figure("Kept by", status.ways[0] ?? NONE, {
                    note: status.ways[1] ? `else ${status.ways[1]}` : "",
                }),
                figure("Last look", ...split(duration(status.monitor.look_ns))),
            ),
        );
    }

    queue(status) {
        const queue = status.containers
            .filter((each) => each.queue_place !== null)
            .sort((a, b) => a.queue_place - b.queue_place);
        if (queue.length === 0) return null;
        return card(
            "Queue",
            { note: "Who is next." },
            h(
                "ol",
                { class: "queue" },
                queue.map((each) =>
                    h(
                        "li",
                        { key: each.id },
                        h("span", { class: "queue-place" }, String(each.queue_place)),
                        h("span", { class: "strong" }, each.name),
                        h(
                            "span",
                            { class: "hint" },
                            `waits ${duration(each.waited_ns)}${each.resume_in_ns === null ? "" : `, is let go in ${duration(each.resume_in_ns)} at the latest`}`,
                        ),
                    ),
                ),
            ),
        );
    }

    containers(status) {
        const rows = [...status.containers].sort(
            (a, b) =>
                ORDER.indexOf(a.state) - ORDER.indexOf(b.state) ||
                (a.queue_place ?? 0) - (b.queue_place ?? 0) ||
                a.name.localeCompare(b.name),
        );
        return card(
            "Containers",
            { note: plural(rows.length, "container"), wide: true },
            table(
                "Containers with a GPU",
                [
                    {
                        name: "Container",
                        cell: (row) => [
                            h("span", { class: "strong" }, row.name),
                            row.project ? h("span", { class: "hint" }, ` ${row.project}`) : null,
                        ],
                    },
                    { name: "State", cell: (row) => chip(row.state, TONES[row.state] ?? "plain") },
                    { name: "Why", align: "text", cell: (row) => sentence(row.reason) },
                    { name: "Place", align: "number", cell: (row) => row.queue_place ?? NONE },
                    {
                        name: "Waits",
                        align: "number",
                        cell: (row) => (row.waited_ns ? duration(row.waited_ns) : NONE),
                    },
                    { name: "Deadline", align: "number", cell: deadline },
                    { name: "SM", cell: (row) => bar(row.sm_share) },
                    {
                        name: "Memory",
                        align: "number",
                        cell: (row) => [
                            bytes(row.memory_bytes),
                            row.expected_memory_bytes
                                ? h(
                                      "span",
                                      { class: "hint" },
                                      ` of ${bytes(row.expected_memory_bytes)} expected`,
                                  )
                                : null,
                        ],
                    },
                    {
                        name: "GPU",
                        align: "number",
                        cell: (row) =>
                            row.gpus.map((each) => this.gpus.get(each) ?? "?").join(", ") || NONE,
                    },
                    { name: "", cell: (row) => this.actions(row) },
                ],
                rows,
                { key: (row) => row.id, empty: "No container with a GPU runs here." },
            ),
        );
    }

    actions(row) {
        if (!this.may.changes) return null;
        const paused = row.state === "paused by a person";
        const what = paused ? "resume" : "pause";
        return h(
            "span",
            { class: "row-actions" },
            button("Why", () => this.why(row), {
                kind: "small",
                label: `Why is ${row.name} so?`,
                key: "why",
            }),
            row.state === "unmanaged"
                ? null
                : button(paused ? "Resume" : "Pause", () => this.act(row, what), {
                      kind: "small",
                      label: `${paused ? "Resume" : "Pause"} ${row.name}`,
                      key: "act",
                  }),
        );
    }

    async why(row) {
        let told = null;
        let failed = null;
        try {
            told = await this.api.get(`/v1/containers/${encodeURIComponent(row.id)}/why`);
        } catch (error) {
            failed = error;
        }
        await ask(row.name, (_, close) => [
            failed
                ? trouble(failed)
                : told.sentences.map((each, number) => h("p", { key: number }, each)),
            buttons(button("Close", () => close(), { kind: "primary", key: "close" })),
        ]);
    }

    async act(row, what) {
        const sure = await ask(
            `${what === "pause" ? "Pause" : "Resume"} ${row.name}?`,
            (_, close) => [
                h(
                    "p",
                    null,
                    what === "pause"
                        ? "It is kept from the GPU until somebody resumes it."
                        : "It queues for the GPU again like all others.",
                ),
                buttons(
                    button("Cancel", () => close(false), { key: "cancel" }),
                    button(what === "pause" ? "Pause" : "Resume", () => close(true), {
                        kind: "primary",
                        key: "sure",
                    }),
                ),
            ],
        );
        if (!sure) return;
        try {
            const after = await this.api.post(
                `/v1/containers/${encodeURIComponent(row.id)}/${what}`,
                {},
            );
            toast(`${row.name}: ${after.state}.`);
        } catch (error) {
            toast(sentence(error.message), "bad");
        }
        this.loop.now();
    }
}

function deadline(row) {
    if (row.deadline_in_ns === null || row.deadline_in_ns === undefined) return NONE;
    if (row.deadline_in_ns >= 0) return duration(row.deadline_in_ns);
    return h("span", { class: "bad" }, `${duration(-row.deadline_in_ns)} late`);
}
