// Level 3: the pages of the fleet, and the first of them: clusters at a glance.

import { ring } from "../charts.js";
import { h } from "../dom.js";
import { ago, digits, grams, grouped, known, money, NONE, percent, plural } from "../format.js";
import { LivePage } from "../live.js";
import { bar, card, chip, choice, figure, figures, page, split, table } from "../parts.js";
import { JobsPage } from "./jobs.js";
import { MoneyPage } from "./money.js";
import { WhatIfPage } from "./whatif.js";

const PERIOD_MS = 2000;
const TINTS = {
    price: ["Price", (each) => each.price],
    carbon: ["Carbon", (each) => each.carbon],
    utilisation: ["Use", (each) => each.utilisation],
    fragmentation: ["Fragmentation", (each) => each.fragmentation],
};
const WEST_TO_EAST = [
    "us-west",
    "us-central",
    "us-east",
    "us",
    "ca",
    "sa",
    "eu-west",
    "eu-north",
    "eu-central",
    "eu-south",
    "eu",
    "me",
    "af",
    "ap-south",
    "ap-southeast",
    "ap-northeast",
    "ap",
    "kr",
    "jp",
    "au",
];

export function fleetPages(api) {
    return [
        { path: "fleet", name: "Fleet", fleet: true, make: (ctx) => new FleetPage(ctx, api) },
        { path: "jobs", name: "Jobs", fleet: true, make: (ctx) => new JobsPage(ctx, api) },
        { path: "what-if", name: "What-if", fleet: true, make: (ctx) => new WhatIfPage(ctx, api) },
        { path: "money", name: "Money", fleet: true, make: (ctx) => new MoneyPage(ctx, api) },
    ];
}

class FleetPage extends LivePage {
    constructor(ctx, api) {
        super(ctx, api, PERIOD_MS);
        this.fleet = null;
        this.tint = "price";
    }

    async look(signal) {
        this.fleet = await this.api.get("/v1/overview", {}, { signal });
        this.draw();
    }

    draw() {
        const fleet = this.fleet;
        const head = page("Fleet", "Which cluster gets which job, at what cost, carbon and risk.");
        if (fleet === null) {
            this.ctx.draw(head, h("p", { class: "empty" }, "Asking the centre…"));
            return;
        }
        this.ctx.draw(head, summary(fleet), this.map(fleet), clusterTable(fleet));
    }

    map(fleet) {
        const value = TINTS[this.tint][1];
        const values = fleet.clusters.map(value).filter(known);
        const range = [Math.min(...values, 0), Math.max(...values, 1e-9)];
        const regions = Map.groupBy(fleet.clusters, (each) => each.region || "elsewhere");
        return card(
            "Map",
            {
                note: "Regions from west to east.",
                wide: true,
                actions: choice(
                    "Shade by",
                    this.tint,
                    Object.entries(TINTS).map(([key, [name]]) => [key, name.toLowerCase()]),
                    (tint) => {
                        this.tint = tint;
                        this.draw();
                    },
                ),
            },
            fleet.clusters.length === 0
                ? h(
                      "p",
                      { class: "empty" },
                      "No cluster is declared yet. Add one with dure clusters add NAME.",
                  )
                : h(
                      "div",
                      { class: "map" },
                      [...regions]
                          .sort(([a], [b]) => longitude(a) - longitude(b) || a.localeCompare(b))
                          .map(([region, clusters]) =>
                              h(
                                  "section",
                                  {
                                      class: "region",
                                      key: region,
                                      "aria-label": `Region ${region}`,
                                      style: { "--columns": String(Math.min(2, clusters.length)) },
                                  },
                                  h("h3", { class: "region-name" }, region),
                                  h(
                                      "ul",
                                      { class: "places" },
                                      clusters.map((each) =>
                                          place(each, fleet.currency, shade(value(each), range)),
                                      ),
                                  ),
                              ),
                          ),
                  ),
        );
    }
}

function summary(fleet) {
    const sum = (key) => fleet.clusters.reduce((total, each) => total + each[key], 0);
    const devices = sum("devices");
    const held = fleet.clusters.reduce(
        (total, each) => total + (each.utilisation ?? 0) * each.devices,
        0,
    );
    const away = fleet.clusters.filter((each) => !each.connected).length;
    const waiting = fleet.jobs.queued ?? 0;
    return h(
        "section",
        { class: "card summary", key: "summary", "aria-label": "Now" },
        h(
            "div",
            { class: "policy-now" },
            h("span", { class: "policy-label" }, "Policy"),
            h("span", { class: "policy-name" }, fleet.policy ?? "defaults"),
            h("a", { href: "#/what-if" }, "Try another…"),
        ),
        figures(
            figure("Clusters", grouped(fleet.clusters.length), {
                note: away ? `${away} out of reach` : "all in reach",
                tone: away ? "warn" : "",
            }),
            figure("Devices", grouped(devices), { note: `${grouped(sum("freeDevices"))} free` }),
            figure("Held", ...split(devices ? percent(held / devices) : NONE)),
            figure("Running", grouped(fleet.jobs.running ?? 0)),
            figure("Waiting", grouped(waiting), { tone: waiting ? "warn" : "" }),
            figure("Failed", grouped(fleet.jobs.failed ?? 0)),
        ),
    );
}

function place(each, currency, part) {
    return h(
        "li",
        {
            key: each.name,
            class: each.connected ? "place" : "place away",
            style: { "--shade": `${Math.round(part * 100)}%` },
        },
        h("div", { class: "place-head" }, h("span", { class: "strong" }, each.name), state(each)),
        h(
            "div",
            { class: "place-body" },
            ring(each.utilisation, {
                text: known(each.utilisation)
                    ? percent(each.utilisation, 0).replace(" ", "")
                    : NONE,
                label: known(each.utilisation)
                    ? `${percent(each.utilisation)} of its devices held`
                    : "use not known",
            }),
            h(
                "dl",
                { class: "place-facts" },
                fact(
                    "Price",
                    known(each.price)
                        ? [money(each.price, ""), h("span", { class: "hint" }, `${currency}/h`)]
                        : NONE,
                ),
                fact("Carbon", [digits(each.carbon), h("span", { class: "hint" }, " g/kWh")]),
                fact("Free", `${grouped(each.freeDevices)} of ${grouped(each.devices)}`),
                fact("Fragmented", percent(each.fragmentation)),
            ),
        ),
        h(
            "p",
            { class: "hint place-kinds" },
            each.accelerators
                .map((kind) => `${grouped(kind.devices)} × ${kind.profile}`)
                .join(", ") || "nothing reported yet",
        ),
    );
}

function fact(name, value) {
    return [h("dt", { key: `${name}-t` }, name), h("dd", { key: `${name}-d` }, value)];
}

function state(each) {
    if (!each.connected) return chip("out of reach", "bad");
    if (each.state !== "joined") return chip(each.state, "warn");
    return each.waitingDevices
        ? chip(`${each.waitingDevices} wait`, "warn")
        : chip(each.class, "plain");
}

function clusterTable(fleet) {
    return card(
        "Clusters",
        { note: plural(fleet.clusters.length, "cluster"), wide: true },
        table(
            "Clusters of the fleet",
            [
                { name: "Cluster", cell: (row) => h("span", { class: "strong" }, row.name) },
                { name: "Region", cell: (row) => row.region || NONE },
                {
                    name: "State",
                    cell: (row) =>
                        chip(
                            row.connected ? row.state : "out of reach",
                            row.connected ? (row.state === "joined" ? "good" : "warn") : "bad",
                        ),
                },
                { name: "Heard", align: "number", cell: (row) => ago(row.lastContactAt) },
                { name: "Devices", align: "number", cell: (row) => grouped(row.devices) },
                { name: "Free", align: "number", cell: (row) => grouped(row.freeDevices) },
                { name: "Held", cell: (row) => bar(row.utilisation) },
                { name: "Fragmented", cell: (row) => bar(row.fragmentation, { tone: "warn" }) },
                {
                    name: "Price",
                    align: "number",
                    cell: (row) =>
                        known(row.price) ? `${money(row.price, fleet.currency)}/h` : NONE,
                },
                {
                    name: "Congestion",
                    align: "number",
                    cell: (row) => `+${money(row.congestion, fleet.currency)}`,
                },
                { name: "Carbon", align: "number", cell: (row) => `${digits(row.carbon)} g/kWh` },
                {
                    name: "Per device",
                    align: "number",
                    cell: (row) => `${grams(mean(row.accelerators))}/h`,
                },
                {
                    name: "Running",
                    align: "number",
                    cell: (row) => (known(row.running) ? grouped(row.running) : NONE),
                },
            ],
            fleet.clusters,
            { key: (row) => row.name, empty: "No cluster is declared yet." },
        ),
    );
}

function mean(kinds) {
    const devices = kinds.reduce((sum, each) => sum + each.devices, 0);
    return devices
        ? kinds.reduce((sum, each) => sum + each.gCo2 * each.devices, 0) / devices
        : undefined;
}

function shade(value, [least, most]) {
    return known(value) ? (value - least) / Math.max(1e-12, most - least) : 0;
}

function longitude(region) {
    const at = WEST_TO_EAST.findIndex((each) => region.startsWith(each));
    return at < 0 ? WEST_TO_EAST.length : at;
}
