// A flat hash map from a pair of 32-bit numbers to a small value: open addressing, no erasing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

template <typename Value>
class PairMap {
 public:
  explicit PairMap(std::size_t expected = 0) {
    std::size_t slots = 16;
    while (slots < expected * 2) slots *= 2;
    slots_.resize(slots);
  }

  // The last value set for a pair stands.
  void set(std::uint32_t a, std::uint32_t b, const Value& value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[place(key_of(a, b))];
    if (slot.key == kEmpty) ++size_;
    slot = {key_of(a, b), value};
  }

  const Value* find(std::uint32_t a, std::uint32_t b) const {
    const Slot& slot = slots_[place(key_of(a, b))];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no id is 2^32 - 1
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  static std::uint64_t key_of(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

  std::size_t place(std::uint64_t key) const {
    // The finalizer of MurmurHash3 (Appleby): every bit of the key reaches the low bits.
    std::uint64_t hash = key;
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDULL;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53ULL;
    hash ^= hash >> 33;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(hash) & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace assay
