// What the policy advisor measures, proposes and did, where the agent has one and it is on.

import { h } from "../dom.js";
import { clock, digits, percent } from "../format.js";
import { bar, button, card, chip, sentence, table } from "../parts.js";

const TONES = { proposed: "warn", switched: "accent", "rolled back": "bad", kept: "good" };
const SHOWN = 6;

// `advice` is the answer of /v1/policy/advice, or null; `choose` opens the choice of a policy.
export function adviceCard(advice, uuid, may, choose) {
    const mine = advice?.gpus.find((each) => each.gpu === uuid);
    if (!mine || advice.adapt === "off") return null;
    const { proposal } = mine;
    return card(
        "Advice",
        {
            wide: true,
            note:
                advice.adapt === "auto"
                    ? "Policies are switched, and back, by themselves."
                    : "Nothing is switched by itself.",
            label: [" ", chip(advice.adapt, "accent")],
        },
        h(
            "div",
            { class: "advice" },
            h(
                "div",
                { key: "now" },
                h(
                    "p",
                    { class: "advice-score" },
                    h("span", { class: "hint" }, "Objective now "),
                    h(
                        "strong",
                        null,
                        Number.isFinite(mine.objective) ? percent(mine.objective, 1) : "–",
                    ),
                ),
                mine.trouble ? h("p", { class: "bad" }, sentence(mine.trouble)) : null,
                proposal
                    ? h(
                          "p",
                          { class: "proposal", key: "proposal" },
                          h("strong", null, `${named(proposal.after)} would do better`),
                          ` by ${percent(proposal.gain, 1)}: ${proposal.reason}. `,
                          button("Switch…", () => choose(proposal.after), {
                              kind: "small",
                              disabled: !may.changes,
                              key: "switch",
                          }),
                      )
                    : h(
                          "p",
                          { class: "hint", key: "none" },
                          "No other policy would do clearly better now.",
                      ),
                h(
                    "details",
                    { key: "objective" },
                    h("summary", null, "What the objective is"),
                    h("p", { class: "hint" }, sentence(advice.objective)),
                ),
            ),
            mine.foretold.length
                ? table(
                      "What dry runs foretell of each policy",
                      [
                          { name: "Policy", cell: (row) => named(row) },
                          {
                              name: "Foretold",
                              cell: (row) => bar(row.score, { text: percent(row.score, 1) }),
                          },
                      ],
                      mine.foretold,
                      { key: (row) => named(row) },
                  )
                : null,
        ),
        mine.history.length
            ? h(
                  "ol",
                  { class: "events", key: "history" },
                  mine.history
                      .slice(-SHOWN)
                      .reverse()
                      .map((each) =>
                          h(
                              "li",
                              { key: `${each.at_unix_s}-${each.kind}` },
                              h("time", null, clock(each.at_unix_s * 1000)),
                              chip(each.kind, TONES[each.kind]),
                              h(
                                  "span",
                                  null,
                                  `${named(each.before)} → ${named(each.after)}: ${each.reason}`,
                              ),
                          ),
                      ),
              )
            : null,
    );
}

function named({ policy, parameters }) {
    const said = Object.entries(parameters).map(([name, value]) => `${name} ${digits(value)}`);
    return said.length ? `${policy} (${said.join(", ")})` : policy;
}
