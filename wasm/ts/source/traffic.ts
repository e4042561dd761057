/** Counters of what reading a model has cost. */

/** Live counters of a model. They only grow. */
export interface Stats {
  /** The number of requests: HTTP requests, or reads of a file, `Blob`, buffer or your own source. */
  readonly requests: number;
  /** The number of times the reader had to wait. Concurrent requests count once. */
  readonly roundTrips: number;
  /** The number of bytes of the file that were received, without HTTP headers. */
  readonly bytesFetched: number;
  /** The number of reads answered by a cache. These are not requests. */
  readonly cacheHits: number;
  /** The number of bytes of the file that came from a cache. */
  readonly cacheBytes: number;
  /** The number of attempts after a failed one. Each is a request, too. */
  readonly retries: number;
}

/** The counters, as the code that makes requests updates them. */
export class Traffic implements Stats {
  requests = 0;
  roundTrips = 0;
  bytesFetched = 0;
  cacheHits = 0;
  cacheBytes = 0;
  retries = 0;
  #underWay = 0;

  /** Counts a request, which lasts until `work` settles. */
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

  /** Counts received bytes. */
  arrived(bytes: number): void {
    this.bytesFetched += bytes;
  }

  /** Counts a read answered by a cache. */
  cached(bytes: number): void {
    this.cacheHits += 1;
    this.cacheBytes += bytes;
  }

  /** Counts a further attempt. */
  retried(): void {
    this.retries += 1;
  }
}
