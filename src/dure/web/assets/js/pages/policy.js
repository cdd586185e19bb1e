// Changes the policy of a GPU: shows the choices, what each would change, and what became of it.

import { ask, buttons, toast } from "../dialog.js";
import { h } from "../dom.js";
import { digits, duration } from "../format.js";
import { button, sentence, trouble } from "../parts.js";

// `wanted`: a policy with parameters that somebody proposes.
export async function choosePolicy(api, gpu, wanted = null) {
    const { choices } = await api.get("/v1/policy/choices");
    let chosen = gpu.policy;
    let preview = null;
    let failed = null;
    let busy = false;
    let begun = false;
    const inForce = () => chosen === gpu.policy && chosen !== wanted?.policy;
    const parameters = () => (chosen === wanted?.policy ? wanted.parameters : {});
    const asked = (dry_run) =>
        api.put("/v1/policy", { policy: chosen, gpu: gpu.uuid, dry_run, parameters: parameters() });

    await ask("Change the policy", (redraw, close) => {
        const look = async (name) => {
            chosen = name;
            preview = failed = null;
            redraw();
            try {
                const answer = (await asked(true)).policies[0];
                if (chosen === name) preview = answer;
            } catch (error) {
                failed = error;
            }
            redraw();
        };
        const apply = async () => {
            busy = true;
            redraw();
            try {
                const answer = (await asked(false)).policies[0];
                toast(
                    `GPU ${gpu.index} follows ${answer.policy} now (plan ${answer.plan?.epoch ?? "none yet"}).`,
                );
                close(true);
            } catch (error) {
                failed = error;
                busy = false;
                redraw();
            }
        };
        if (wanted && !begun) queueMicrotask(() => look(wanted.policy));
        begun = true;
        return [
            h(
                "fieldset",
                { class: "options", key: "options" },
                h("legend", null, `Of GPU ${gpu.index}, ${gpu.name}`),
                choices.map((each) =>
                    h(
                        "label",
                        { key: each.name, class: "option" },
                        h("input", {
                            type: "radio",
                            name: "policy",
                            value: each.name,
                            checked: chosen === each.name,
                            onchange: () => look(each.name),
                        }),
                        h(
                            "span",
                            { class: "option-name" },
                            each.name,
                            each.name === gpu.policy
                                ? h("span", { class: "hint" }, " in force")
                                : null,
                        ),
                        h("span", { class: "option-about" }, each.about),
                    ),
                ),
            ),
            h(
                "div",
                { class: "preview", key: "preview", role: "status", "aria-live": "polite" },
                inForce()
                    ? "It is in force already."
                    : failed
                      ? null
                      : preview
                        ? previewView(preview)
                        : "Asking what would change…",
            ),
            failed ? trouble(failed) : null,
            buttons(
                button("Cancel", () => close(false), { key: "cancel" }),
                button(busy ? "Switching…" : `Switch to ${chosen}`, apply, {
                    kind: "primary",
                    disabled: busy || inForce() || preview === null,
                    key: "apply",
                }),
            ),
        ];
    });
}

function previewView(preview) {
    const squads = preview.plan?.squads ?? [];
    return [
        h(
            "p",
            null,
            h("strong", null, "A switch would do this: "),
            sentence(preview.reason ?? "the plan stays as it is"),
        ),
        squads.length
            ? h(
                  "ul",
                  null,
                  squads
                      .slice(0, 6)
                      .map((squad, number) =>
                          h(
                              "li",
                              { key: number },
                              `${squad.members.map((each) => `${each.tenant} on ${each.sm_count} SMs`).join(" beside ")}, ${duration(squad.duration_ns)}`,
                          ),
                      ),
              )
            : null,
        h(
            "p",
            { class: "hint" },
            "It takes effect at the next squad edge; work goes on, and what was learned of tenants is kept.",
        ),
    ];
}

export async function showWhy(api, tenant) {
    let why = null;
    let failed = null;
    try {
        why = await api.get(`/v1/tenants/${encodeURIComponent(tenant)}/why`);
    } catch (error) {
        failed = error;
    }
    await ask(`Why is ${tenant} held?`, (_, close) => [
        failed ? trouble(failed) : null,
        why
            ? [
                  why.sentences.map((each, number) => h("p", { key: number }, each)),
                  h(
                      "ul",
                      { key: "reasons" },
                      why.reasons.map((each) =>
                          h(
                              "li",
                              { key: each.reason },
                              `${each.reason}: ${duration(each.held_ns)} of the last ${digits(why.window_s)} s`,
                          ),
                      ),
                  ),
              ]
            : null,
        buttons(button("Close", () => close(), { kind: "primary", key: "close" })),
    ]);
}
