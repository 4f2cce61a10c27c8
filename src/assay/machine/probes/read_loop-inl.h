// The read loop over a `Vec` of the including file, within its anonymous namespace.

// Eight loads in flight per turn whatever the number of streams, each into an accumulator of its own.
template <int kStreams>
std::uint64_t read_streams(const std::byte* data, std::size_t bytes) noexcept {
  constexpr int kLoads = 8 / kStreams;
  const std::size_t part = bytes / kStreams;
  Vec sums[8] = {};
  for (std::size_t at = 0; at < part; at += kLoads * sizeof(Vec))
    for (int stream = 0; stream < kStreams; ++stream)
      for (int i = 0; i < kLoads; ++i) {
        Vec& sum = sums[stream * kLoads + i];
        sum = sum | Vec::load(data + static_cast<std::size_t>(stream) * part + at +
                              static_cast<std::size_t>(i) * sizeof(Vec));
      }
  return ((sums[0] | sums[1]) | (sums[2] | sums[3]) | (sums[4] | sums[5]) | (sums[6] | sums[7])).low();
}

std::uint64_t read(const std::byte* data, std::size_t bytes, int streams) noexcept {
  switch (streams) {
    case 1:
      return read_streams<1>(data, bytes);
    case 2:
      return read_streams<2>(data, bytes);
    case 4:
      return read_streams<4>(data, bytes);
    default:
      return read_streams<8>(data, bytes);
  }
}
