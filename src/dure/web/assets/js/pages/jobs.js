// Jobs: a list that can be narrowed, and one of them with the reasons of its place.

import { h } from "../dom.js";
import { ago, moment, NONE, plural } from "../format.js";
import { LivePage } from "../live.js";
import { button, card, chip, choice, page, sentence, table } from "../parts.js";
import { JobView } from "./job.js";

const PERIOD_MS = 2000;
const PART = 50;
const MOST = 500;
export const PHASES = {
    queued: "warn",
    placed: "accent",
    running: "good",
    unknown: "bad",
    cancelling: "warn",
    succeeded: "plain",
    failed: "bad",
    cancelled: "plain",
};

export class JobsPage extends LivePage {
    constructor(ctx, api) {
        super(ctx, api, PERIOD_MS);
        this.filter = { phase: "", tenant: "", cluster: "", name: "" };
        this.known = { tenants: [], clusters: [] };
        this.wanted = PART;
        this.items = null;
        this.more = false;
    }

    begin() {
        const [id] = this.ctx.rest;
        if (id) {
            this.inner = new JobView(this.ctx, this.api, id);
            this.inner.begin();
            return;
        }
        super.begin();
    }

    end() {
        this.inner?.end();
        super.end();
    }

    async look(signal) {
        if (this.known.clusters.length === 0) {
            const [tenants, clusters] = await Promise.all([
                this.api.get("/v1/tenants", { limit: 1000 }, { signal }),
                this.api.get("/v1/clusters", { limit: 1000 }, { signal }),
            ]);
            this.known = {
                tenants: tenants.items
                    .filter((each) => each.parent === null)
                    .map((each) => each.path),
                clusters: clusters.items.map((each) => each.name),
            };
        }
        const asked = { ...this.filter };
        const found = await this.api.get(
            "/v1/jobs",
            { ...asked, order: "newest", limit: this.wanted },
            { signal },
        );
        if (JSON.stringify(asked) !== JSON.stringify(this.filter)) return;
        this.items = found.items;
        this.more = found.cursor !== "";
        this.draw();
    }

    narrow(key, value) {
        this.filter = { ...this.filter, [key]: value };
        this.wanted = PART;
        this.loop.now();
        this.draw();
    }

    draw() {
        const { filter } = this;
        this.ctx.draw(
            page("Jobs", "The newest first; open one to see why it is where it is."),
            h(
                "form",
                {
                    class: "toolbar card",
                    key: "filter",
                    "aria-label": "Narrow the list",
                    onsubmit: (event) => event.preventDefault(),
                },
                choice("Phase", filter.phase, [["", "any"], ...Object.keys(PHASES)], (value) =>
                    this.narrow("phase", value),
                ),
                choice("Tenant", filter.tenant, [["", "all"], ...this.known.tenants], (value) =>
                    this.narrow("tenant", value),
                ),
                choice("Cluster", filter.cluster, [["", "all"], ...this.known.clusters], (value) =>
                    this.narrow("cluster", value),
                ),
                h(
                    "span",
                    { class: "choice", key: "name" },
                    h("label", { class: "choice-name", for: "choice-job" }, "Name"),
                    h("input", {
                        id: "choice-job",
                        type: "search",
                        size: 14,
                        placeholder: "exact",
                        onchange: (event) => this.narrow("name", event.target.value.trim()),
                    }),
                ),
            ),
            card(
                "Jobs",
                {
                    wide: true,
                    note: this.items
                        ? this.more
                            ? `The newest ${this.items.length}.`
                            : plural(this.items.length, "job")
                        : "Asking the centre…",
                },
                this.items === null ? null : this.list(),
                this.more && this.wanted < MOST
                    ? button(
                          "Show more",
                          () => {
                              this.wanted += PART;
                              this.loop.now();
                          },
                          { key: "more" },
                      )
                    : null,
            ),
        );
    }

    list() {
        return table(
            "Jobs",
            [
                {
                    name: "Job",
                    cell: (row) => h("a", { href: `#/jobs/${row.id}`, class: "strong" }, row.name),
                },
                {
                    name: "Tenant",
                    cell: (row) => [
                        row.tenant,
                        row.team ? h("span", { class: "hint" }, ` / ${row.team}`) : null,
                    ],
                },
                { name: "Kind", cell: (row) => row.kind },
                {
                    name: "Phase",
                    cell: (row) => chip(row.suspended ? "suspended" : row.phase, PHASES[row.phase]),
                },
                { name: "Cluster", cell: (row) => row.cluster ?? NONE },
                { name: "Attempt", align: "number", cell: (row) => row.attempt || NONE },
                {
                    name: "Submitted",
                    align: "number",
                    cell: (row) =>
                        h("span", { title: moment(row.submittedAt) }, ago(row.submittedAt)),
                },
                { name: "Because", align: "text", cell: (row) => sentence(row.reason) },
            ],
            this.items,
            { key: (row) => row.id, empty: "No job is like that." },
        );
    }
}
