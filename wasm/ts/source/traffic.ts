/** Counters of the requests and bytes of a model. */

/** Live counters of a model. They never decrease. */
export interface Stats {
  /** The number of requests: HTTP requests, or reads of a file, `Blob`, buffer or your own source. */
  readonly requests: number;
  /** The number of times that the reader had to wait for a response. Concurrent requests count once. */
  readonly roundTrips: number;
  /** The number of file bytes that were received, without HTTP headers. */
  readonly bytesFetched: number;
  /** The number of reads answered by a cache, which are not requests. */
  readonly cacheHits: number;
  /** The number of file bytes that came from a cache. */
  readonly cacheBytes: number;
  /** The number of attempts after a failed one. Each of them is also counted as a request. */
  readonly retries: number;
}

/** The mutable counters, which the code that makes requests updates. */
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

  /** Counts an attempt after a failed one. */
  retried(): void {
    this.retries += 1;
  }
}
