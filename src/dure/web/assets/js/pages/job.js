// One job: why it is where it is, in money, grams and risk, and the best place that was not taken.

import { h } from "../dom.js";
import { digits, duration, grams, known, moment, money, NONE } from "../format.js";
import { LivePage } from "../live.js";
import {
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
} from "../parts.js";
import { PHASES } from "./jobs.js";

const PERIOD_MS = 2000;
const TERMS = {
    rent: "Rent",
    energy: "Energy",
    carbon: "Carbon, priced",
    sla: "Expected penalty",
    latency: "Distance to users",
    transfer: "Transfers",
    egress: "Transfers",
    start: "Start-up",
    locality: "Nearness of data",
};

export class JobView extends LivePage {
    constructor(ctx, api, id) {
        super(ctx, api, PERIOD_MS);
        this.id = id;
        this.job = null;
        this.why = null;
        this.currency = "";
        this.places = null;
        this.asking = false;
        this.failed = null;
    }

    async look(signal) {
        const path = `/v1/jobs/${encodeURIComponent(this.id)}`;
        const [job, why, fleet] = await Promise.all([
            this.api.get(path, {}, { signal }),
            this.api.get(`${path}/explain`, {}, { signal }),
            this.currency ? null : this.api.get("/v1/fleet", {}, { signal }),
        ]);
        this.currency ||= fleet.spec.currency;
        this.job = job;
        this.why = why;
        this.draw();
    }

    draw() {
        const { job, why } = this;
        const back = h("p", { key: "back" }, h("a", { href: "#/jobs" }, "← All jobs"));
        if (job === null) {
            this.ctx.draw(page("Job", this.id), back);
            return;
        }
        const latest = why.attempts[0];
        this.ctx.draw(
            page(job.name, [
                chip(job.phase, PHASES[job.phase]),
                " ",
                h(
                    "span",
                    { class: "hint" },
                    `${job.id} · ${[job.tenant, job.team, job.serviceName].filter(Boolean).join(" / ")} · ${job.kind}`,
                ),
            ]),
            back,
            this.standing(job, latest),
            latest?.explanation ? this.explained(latest) : null,
            this.elsewhere(job),
            attemptsCard(job),
        );
    }

    standing(job, latest) {
        const why = latest?.explanation;
        return h(
            "section",
            { class: "card summary", key: "standing", "aria-label": "Now" },
            h(
                "div",
                { class: "policy-now" },
                h("span", { class: "policy-label" }, job.cluster ? "Cluster" : "Waits"),
                h("span", { class: "policy-name" }, job.cluster ?? "no place yet"),
            ),
            figures(
                figure("Money", ...split(why ? money(why.money, this.currency) : NONE), {
                    key: "money",
                }),
                figure("Carbon", ...split(why ? grams(why.gCo2) : NONE)),
                figure("SLA risk", ...split(why ? money(why.slaRisk, this.currency) : NONE)),
                figure("Congestion", ...split(why ? money(why.congestion, this.currency) : NONE)),
                figure("Attempt", String(job.attempt || NONE)),
            ),
            job.reason ? h("p", { class: "hint gate" }, sentence(job.reason)) : null,
        );
    }

    explained(latest) {
        const why = latest.explanation;
        const rows = [
            ...why.terms.map((each) => [
                TERMS[each.name] ?? each.name.replaceAll("_", " "),
                each.amount,
            ]),
            ["Congestion price", why.congestion],
        ];
        const second = why.runnerUp;
        const most = Math.max(...rows.map(([, amount]) => Math.abs(amount)), 1e-12);
        return card(
            `Why ${latest.cluster}`,
            { key: "why", wide: true, note: "Expected over its whole run, when it was placed." },
            h(
                "div",
                { class: "explain" },
                h(
                    "div",
                    { class: "terms", key: "terms" },
                    this.terms([...rows, ["Compared total", why.total]], most),
                ),
                h(
                    "div",
                    { class: "runner-up", key: "second" },
                    h("h3", null, "The runner-up"),
                    second
                        ? [
                              h(
                                  "p",
                                  { key: "site" },
                                  h("span", { class: "strong" }, second.site),
                                  " was not taken.",
                              ),
                              h(
                                  "dl",
                                  { class: "place-facts", key: "facts" },
                                  h("dt", null, "Its total"),
                                  h("dd", null, money(second.total, this.currency)),
                                  h(
                                      "dt",
                                      null,
                                      second.total < why.total ? "Cheaper by" : "Dearer by",
                                  ),
                                  h("dd", null, compared(second.total, why.total, this.currency)),
                                  h("dt", null, "Would start"),
                                  h("dd", null, moment(second.startAt)),
                              ),
                              second.why
                                  ? h("p", { class: "hint", key: "why" }, sentence(second.why))
                                  : null,
                          ]
                        : h("p", { class: "empty" }, "No other place could have taken it."),
                    why.note ? h("p", { class: "hint", key: "note" }, sentence(why.note)) : null,
                ),
            ),
        );
    }

    terms(rows, most) {
        const strong = (name) => (name === "Compared total" ? { class: "strong" } : null);
        return table(
            "What the placement costs, by part",
            [
                { name: "Part", cell: ([name]) => h("span", strong(name), name) },
                {
                    name: "",
                    cell: ([name, amount]) =>
                        strong(name)
                            ? null
                            : h("span", {
                                  class: amount < 0 ? "term saving" : "term",
                                  style: { width: `${(Math.abs(amount) / most) * 100}%` },
                              }),
                },
                {
                    name: "Amount",
                    align: "number",
                    cell: ([name, amount]) => h("span", strong(name), money(amount, this.currency)),
                },
            ],
            rows,
            { key: ([name]) => name },
        );
    }

    elsewhere(job) {
        return card(
            "Where it would go now",
            {
                key: "now",
                wide: true,
                note: "Weighed anew, as if it came now; nothing is stored.",
                actions: button(this.asking ? "Weighing…" : "Weigh it", () => this.weigh(job), {
                    disabled: this.asking,
                    key: "weigh",
                }),
            },
            this.failed ? trouble(this.failed) : null,
            this.places ? this.options(this.places) : null,
        );
    }

    async weigh(job) {
        this.asking = true;
        this.failed = null;
        this.draw();
        try {
            const spec = { ...job.spec, tenant: job.tenant };
            const answer = await this.api.post(
                "/v1/evaluations",
                { jobs: [spec] },
                { patienceMs: 60_000 },
            );
            this.places = answer.jobs[0];
        } catch (error) {
            this.failed = error;
        }
        this.asking = false;
        this.draw();
    }

    options(verdict) {
        return [
            h(
                "p",
                { key: "verdict" },
                verdict.cluster
                    ? ["It would go to ", h("strong", null, verdict.cluster), "."]
                    : sentence(`It would wait: ${verdict.reason}`),
            ),
            table(
                "Clusters that could take it",
                [
                    { name: "Cluster", cell: (row) => h("span", { class: "strong" }, row.cluster) },
                    {
                        name: "Room now",
                        cell: (row) =>
                            chip(row.hasRoom ? "yes" : "no", row.hasRoom ? "good" : "warn"),
                    },
                    {
                        name: "Total",
                        align: "number",
                        cell: (row) => money(row.explanation.total, this.currency),
                    },
                    {
                        name: "Money",
                        align: "number",
                        cell: (row) => money(row.explanation.money, this.currency),
                    },
                    { name: "Carbon", align: "number", cell: (row) => grams(row.explanation.gCo2) },
                    {
                        name: "SLA risk",
                        align: "number",
                        cell: (row) => money(row.explanation.slaRisk, this.currency),
                    },
                    {
                        name: "Starts in",
                        align: "number",
                        cell: (row) => duration(row.delayHours * 3600e9),
                    },
                    {
                        name: "Runs",
                        align: "number",
                        cell: (row) => duration(row.runHours * 3600e9),
                    },
                ],
                verdict.options,
                { key: (row) => row.cluster, empty: "No cluster could take it." },
            ),
            verdict.refusals.length
                ? h(
                      "ul",
                      { class: "refusals", key: "refusals" },
                      verdict.refusals.map((each) =>
                          h(
                              "li",
                              { key: each.cluster, class: "hint" },
                              `${each.cluster}: ${each.why}`,
                          ),
                      ),
                  )
                : null,
        ];
    }
}

function compared(theirs, ours, currency) {
    const share = theirs > ours && ours > 0 && known(theirs) ? ` (${digits(theirs / ours)} ×)` : "";
    return `${money(Math.abs(theirs - ours), currency)}${share}`;
}

function attemptsCard(job) {
    return card(
        "Attempts",
        { wide: true },
        table(
            "Attempts of this job",
            [
                { name: "Attempt", cell: (row) => String(row.attempt) },
                { name: "Cluster", cell: (row) => row.cluster },
                {
                    name: "State",
                    cell: (row) => chip(row.state, row.state === "running" ? "good" : "plain"),
                },
                { name: "Reserved", align: "number", cell: (row) => moment(row.reservedAt) },
                { name: "Running", align: "number", cell: (row) => moment(row.runningAt) },
                { name: "Gone", align: "number", cell: (row) => moment(row.goneAt) },
                { name: "Because", align: "text", cell: (row) => sentence(row.reason) },
            ],
            [...job.attempts].reverse(),
            { key: (row) => row.attempt, empty: "It has not been placed yet." },
        ),
    );
}
