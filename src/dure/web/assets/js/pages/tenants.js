// The tenants of a GPU: what each was promised and how that is kept, what it gets and holds.

import { slotOf } from "../colours.js";
import { h } from "../dom.js";
import { bytes, digits, duration, known, NONE, percent, plural } from "../format.js";
import { bar, button, card, chip, table } from "../parts.js";
import { showWhy } from "./policy.js";

export function tenantsCard(api, tenants) {
    return card(
        "Tenants",
        { note: plural(tenants.length, "tenant"), wide: true },
        table(
            "Tenants of this GPU",
            [
                {
                    name: "Tenant",
                    cell: (row) => [
                        swatch(row.name),
                        h("span", { class: "strong" }, row.name),
                        row.at_risk ? [" ", chip("at risk", "bad")] : null,
                    ],
                },
                { name: "Class", cell: (row) => row.spec.class },
                { name: "Promise", cell: (row) => promise(row.spec) },
                { name: "Kept", cell: attainment },
                { name: "p50", align: "number", cell: (row) => latency(row, "p50_ns") },
                { name: "p99", align: "number", cell: (row) => latency(row, "p99_ns") },
                {
                    name: "Requests",
                    align: "number",
                    cell: (row) =>
                        serves(row) ? `${digits(row.latency.requests_per_s)} /s` : NONE,
                },
                { name: "GPU", cell: (row) => bar(row.gpu_share) },
                { name: "Held", cell: (row) => bar(row.held_share, { tone: "held" }) },
                { name: "Memory", align: "number", cell: memory },
                { name: "Weight", align: "number", cell: weight },
                {
                    name: "",
                    cell: (row) =>
                        button("Why", () => showWhy(api, row.name), {
                            label: `Why is ${row.name} held?`,
                            kind: "small",
                        }),
                },
            ],
            tenants,
            {
                key: (row) => row.name,
                empty: "No tenant is declared. Start one with dure run --tenant NAME -- PROGRAM.",
            },
        ),
    );
}

export function swatch(tenant) {
    return h("span", {
        class: `swatch tone-${slotOf(tenant)}`,
        "aria-hidden": "true",
        key: "swatch",
    });
}

function promise(spec) {
    const said = [];
    if (spec.latency_slo)
        said.push(`p${spec.latency_slo.percentile} ≤ ${duration(spec.latency_slo.target_ns)}`);
    if (spec.throughput_slo) said.push(`${digits(spec.throughput_slo.items_per_s)} /s`);
    if (spec.availability_slo) said.push(`${percent(spec.availability_slo.share)} available`);
    if (spec.deadline_in_ns) said.push(`done in ${duration(spec.deadline_in_ns)}`);
    return said.join(", ") || NONE;
}

function attainment(row) {
    const share = row.latency?.on_time_share;
    if (!known(share)) return NONE;
    const wanted = (row.latency.percentile ?? 99) / 100;
    return bar(share, {
        tone: share >= wanted ? "good" : "bad",
        mark: wanted,
        text: percent(share, 1),
    });
}

function serves(row) {
    return row.latency && row.latency.requests_per_s > 0;
}

function latency(row, key) {
    return serves(row) ? duration(row.latency[key]) : NONE;
}

function memory(row) {
    const limit = row.spec.memory_limit_bytes;
    return limit ? `${bytes(row.memory_bytes)} / ${bytes(limit)}` : bytes(row.memory_bytes);
}

function weight(row) {
    const stated = digits(row.spec.weight);
    if (!known(row.weight_now) || Math.abs(row.weight_now - row.spec.weight) < 0.005) return stated;
    return `${stated} → ${digits(row.weight_now)}`;
}
