/** What reading a model has cost so far. */

/** Live counters of a model; they only grow. */
export interface Stats {
  /** Requests made: HTTP requests, or reads of a file, `Blob`, buffer or source of your own. */
  readonly requests: number;
  /** How many times the reader had to wait: requests under way at the same time count once. */
  readonly roundTrips: number;
  /** Bytes of the file that arrived, without HTTP headers. */
  readonly bytesFetched: number;
  /** Reads that a cache answered; they are no requests. */
  readonly cacheHits: number;
  /** Bytes of the file that came from a cache. */
  readonly cacheBytes: number;
  /** Attempts made again after one that failed; each is a request, too. */
  readonly retries: number;
}

/** Counts; handed to whatever makes the requests. */
export class Traffic implements Stats {
  requests = 0;
  roundTrips = 0;
  bytesFetched = 0;
  cacheHits = 0;
  cacheBytes = 0;
  retries = 0;
  #underWay = 0;

  /** Counts a request, which is under way until `work` settles. */
  async request<T>(work: () => Promise<T>): Promise<T> {
    this.requests += 1;
    if (this.#underWay === 0) this.roundTrips += 1;
    this.#underWay += 1;
    try {
      return await work();
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Counts bytes that arrived. */
  arrived(bytes: number): void {
    this.bytesFetched += bytes;
  }

  /** Counts a read that a cache answered. */
  cached(bytes: number): void {
    this.cacheHits += 1;
    this.cacheBytes += bytes;
  }

  /** Counts an attempt made again. */
  retried(): void {
    this.retries += 1;
  }
}
