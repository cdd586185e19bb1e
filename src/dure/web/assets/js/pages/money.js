// What work came to: budgets with what is spent of them, and the bill of a month.

import { h } from "../dom.js";
import { digits, grams, moment, money, NONE, percent, plural } from "../format.js";
import { LivePage } from "../live.js";
import { bar, card, choice, figure, figures, page, split, table } from "../parts.js";

const PERIOD_MS = 5000;
const BY = {
    tenant: "tenant",
    "tenant,team": "team",
    cluster: "cluster",
    profile: "accelerator",
    day: "day",
};

export class MoneyPage extends LivePage {
    constructor(ctx, api) {
        super(ctx, api, PERIOD_MS);
        this.by = "tenant,team";
        this.bill = null;
        this.budgets = [];
        this.currency = "";
    }

    async look(signal) {
        const by = this.by;
        const [bill, budgets, fleet] = await Promise.all([
            this.api.get("/v1/bills", { by }, { signal }),
            this.api.get("/v1/budgets", { limit: 1000 }, { signal }),
            this.api.get("/v1/fleet", {}, { signal }),
        ]);
        if (by !== this.by) return;
        this.bill = bill;
        this.budgets = budgets.items;
        this.currency = fleet.spec.currency;
        this.draw();
    }

    draw() {
        const head = page(
            "Money",
            "What work came to this month, in money and grams, and what of the budgets is spent.",
        );
        if (this.bill === null) {
            this.ctx.draw(head, h("p", { class: "empty" }, "Asking the centre…"));
            return;
        }
        this.ctx.draw(head, this.totals(), this.budgetCard(), this.billCard());
    }

    totals() {
        const { bill } = this;
        return h(
            "section",
            { class: "card summary", key: "totals", "aria-label": "This month" },
            h(
                "div",
                { class: "policy-now" },
                h("span", { class: "policy-label" }, bill.closed ? "Closed month" : "Month so far"),
                h("span", { class: "policy-name" }, bill.period),
            ),
            bill.totals.length === 0
                ? h("p", { class: "empty" }, "Nothing is billed yet.")
                : bill.totals.map((each) =>
                      figures(
                          figure("Amount", each.amount, { unit: each.currency }),
                          figure("Rent", digits(Number(each.rent)), { unit: each.currency }),
                          figure("Energy", digits(Number(each.energy)), { unit: each.currency }),
                          figure("Transfers", digits(Number(each.egress)), { unit: each.currency }),
                          figure("Carbon", ...split(grams(each.carbonUg / 1e6))),
                          figure("Device-hours", digits(Number(each.deviceHours))),
                      ),
                  ),
        );
    }

    budgetCard() {
        const amount = (row, value) =>
            row.spec.unit === "money" ? money(value, this.currency) : grams(value);
        return card(
            "Budgets",
            { wide: true, note: plural(this.budgets.length, "budget") },
            table(
                "Budgets",
                [
                    { name: "Whose", cell: (row) => h("span", { class: "strong" }, row.tenant) },
                    { name: "Budget", cell: (row) => row.name },
                    {
                        name: "Spent",
                        cell: (row) => {
                            const share = row.spec.limit > 0 ? row.spent / row.spec.limit : 1;
                            return bar(share, {
                                tone: share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good",
                                text: percent(share),
                            });
                        },
                    },
                    { name: "So far", align: "number", cell: (row) => amount(row, row.spent) },
                    { name: "Limit", align: "number", cell: (row) => amount(row, row.spec.limit) },
                    { name: "Until", align: "number", cell: (row) => moment(row.spec.periodEnd) },
                    {
                        name: "When spent",
                        cell: (row) => (row.spec.refuse ? "jobs are refused" : "people are told"),
                    },
                ],
                this.budgets,
                {
                    key: (row) => `${row.tenant}/${row.name}`,
                    empty: "No budget is set. Set one with dure budget set.",
                },
            ),
        );
    }

    billCard() {
        const lines = this.bill.lines;
        const most = Math.max(...lines.map((each) => each.amountMicro), 1);
        return card(
            "Bill",
            {
                wide: true,
                note: `${this.bill.period}, ${this.bill.timeZone}; ${this.bill.closed ? "nothing of it will change" : "still open"}.`,
                actions: choice("By", this.by, Object.entries(BY), (value) => {
                    this.by = value;
                    this.loop.now();
                }),
            },
            table(
                "Bill of the month",
                [
                    {
                        name: "For",
                        cell: (row) =>
                            h(
                                "span",
                                { class: "strong" },
                                [row.tenant, row.team, row.cluster, row.profile, row.day]
                                    .filter(Boolean)
                                    .join(" / ") || "all",
                            ),
                    },
                    { name: "Share", cell: (row) => bar(row.amountMicro / most, { text: "" }) },
                    {
                        name: "Amount",
                        align: "number",
                        cell: (row) => `${row.amount} ${row.currency}`,
                    },
                    { name: "Rent", align: "number", cell: (row) => digits(Number(row.rent)) },
                    { name: "Energy", align: "number", cell: (row) => digits(Number(row.energy)) },
                    { name: "Carbon", align: "number", cell: (row) => grams(row.carbonUg / 1e6) },
                    { name: "Device-hours", align: "number", cell: (row) => row.deviceHours },
                    { name: "Adjusts", cell: (row) => row.adjusts || NONE },
                ],
                lines,
                {
                    key: (row) =>
                        JSON.stringify([
                            row.tenant,
                            row.team,
                            row.cluster,
                            row.profile,
                            row.day,
                            row.currency,
                            row.adjusts,
                        ]),
                    empty: "Nothing is billed yet.",
                },
            ),
        );
    }
}
