// Asks agent and centre. What was shown to sign in stays in this tab and goes with every question.

const STORED = "dure-sign-in";
const ANSWER_MS = 10_000;

class Problem extends Error {
    constructor(status, what, remedy = "") {
        super(remedy ? `${what}; ${remedy}` : what);
        this.status = status;
        this.what = what;
        this.remedy = remedy;
    }
}

export const session = {
    secret: sessionStorage.getItem(STORED) ?? "",
    keep(secret) {
        this.secret = secret;
        if (secret) sessionStorage.setItem(STORED, secret);
        else sessionStorage.removeItem(STORED);
    },
    // A key may come behind the # of the address; it does not stay there.
    takeFromAddress() {
        const found = /^#key=([\w-]+)$/.exec(location.hash);
        if (!found) return;
        this.keep(found[1]);
        history.replaceState(null, "", location.pathname);
    },
};

export class Api {
    constructor(base) {
        this.base = base;
    }

    get(path, query = {}, options = {}) {
        return this.ask("GET", path, { query, ...options });
    }

    put(path, body, options = {}) {
        return this.ask("PUT", path, { body, ...options });
    }

    post(path, body, options = {}) {
        return this.ask("POST", path, { body, ...options });
    }

    async ask(method, path, { query = {}, body, signal, patienceMs = ANSWER_MS } = {}) {
        const headers = { Accept: "application/json" };
        if (session.secret) headers.Authorization = `Bearer ${session.secret}`;
        if (body !== undefined) headers["Content-Type"] = "application/json";
        const limits = [AbortSignal.timeout(patienceMs), ...(signal ? [signal] : [])];
        let answer;
        try {
            answer = await fetch(`${this.base}${path}${asked(query)}`, {
                method,
                headers,
                body: body === undefined ? undefined : JSON.stringify(body),
                signal: AbortSignal.any(limits),
                cache: "no-store",
            });
        } catch (error) {
            if (signal?.aborted) throw error;
            const late = error.name === "TimeoutError";
            throw new Problem(0, late ? "no answer in time" : "cannot be reached");
        }
        if (answer.ok) return answer.status === 204 ? null : await answer.json();
        throw await problem(answer);
    }
}

function asked(query) {
    const found = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        for (const each of [value].flat()) {
            if (each !== null && each !== undefined && each !== "") found.append(name, each);
        }
    }
    const text = found.toString();
    return text ? `?${text}` : "";
}

async function problem(answer) {
    let said = {};
    try {
        said = await answer.json();
    } catch {
        // No JSON: the status says enough.
    }
    // The agent says error and remedy, the centre a detail with both.
    const [what, ...rest] = (said.error ?? said.detail ?? answer.statusText).split("; ");
    const remedy = said.remedy ?? rest.join("; ");
    if (answer.status === 401) window.dispatchEvent(new Event("signedout"));
    return new Problem(answer.status, what || `status ${answer.status}`, remedy);
}
