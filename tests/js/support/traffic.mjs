/** What reading has cost, without what only caches and failures change. */

export const cost = ({ requests, roundTrips, bytesFetched }) => ({ requests, roundTrips, bytesFetched });
