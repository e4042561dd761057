/** Returns the counters of requests and bytes, without the counters of caches and failures. */

export const cost = ({ requests, roundTrips, bytesFetched }) => ({ requests, roundTrips, bytesFetched });
