// Looks again and again while a page is shown; goes on by itself after whatever went wrong.

const LONGEST_MS = 5000;

export class Live {
    // `look` gets a signal that ends with the page; `told` hears null or what went wrong.
    constructor(periodMs, look, told) {
        this.periodMs = periodMs;
        this.look = look;
        this.told = told;
        this.ended = new AbortController();
        this.failures = 0;
        this.wake = () => {};
        this.shown = () => {
            if (!document.hidden) this.wake();
        };
        document.addEventListener("visibilitychange", this.shown);
        this.run();
    }

    async run() {
        while (!this.ended.signal.aborted) {
            if (!document.hidden) await this.once();
            await this.pause();
        }
    }

    async once() {
        try {
            await this.look(this.ended.signal);
            if (this.ended.signal.aborted) return;
            this.failures = 0;
            this.told(null);
        } catch (error) {
            if (this.ended.signal.aborted) return;
            this.failures += 1;
            this.told(error);
        }
    }

    pause() {
        const waitMs = this.failures
            ? Math.min(LONGEST_MS, 500 * 2 ** Math.min(this.failures, 4))
            : this.periodMs;
        return new Promise((resolve) => {
            const timer = setTimeout(resolve, document.hidden ? 3_600_000 : waitMs);
            this.wake = () => {
                clearTimeout(timer);
                resolve();
            };
        });
    }

    now() {
        this.failures = 0;
        this.wake();
    }

    end() {
        document.removeEventListener("visibilitychange", this.shown);
        this.ended.abort();
        this.wake();
    }
}

// A page that looks every `periodMs`; it says what `look` asks for and how `draw` shows it.
export class LivePage {
    constructor(ctx, api, periodMs) {
        this.ctx = ctx;
        this.api = api;
        this.periodMs = periodMs;
    }

    begin() {
        this.loop = new Live(this.periodMs, (signal) => this.look(signal), this.ctx.told);
        this.draw();
    }

    end() {
        this.loop?.end();
    }
}
