// Building JSON documents strictly, whatever their type: nlohmann/json with limits. For json.cpp and
// json_reader.cpp; it includes the whole JSON library.
#pragma once

#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"

namespace assay::strict_json {

inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

struct Limits {
  std::size_t values = kNoLimit;  // numbers, texts, arrays and objects
  std::size_t keys = kNoLimit;    // in one object
  bool is_python =
      false;  // the text comes of python_json(): its marks are numbers, the last of equal keys counts
};

// Texts that stand for what JSON has no number for; texts that begin with NUL have one NUL more.
inline constexpr std::string_view kNanMark{"\0n", 2}, kInfinityMark{"\0i", 2}, kMinusInfinityMark{"\0-", 2};

// The library's own builder, with what it lets pass refused: deep nesting, keys that stand twice, more than
// the limits allow. (Its parser callbacks would do too, but look through the whole enclosing array after each
// object, which is quadratic.)
template <typename Json>
class Builder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  // `where` names the file in errors and must outlive it; `depth`: arrays and objects that are open already.
  Builder(Json& out, const std::string& where, const Limits& limits, int depth = 0)
      : Base(out), where_(where), limits_(limits), depth_(depth) {}

  bool null() { return count() && Base::null(); }
  bool boolean(bool value) { return count() && Base::boolean(value); }
  bool number_integer(typename Json::number_integer_t value) {
    return count() && Base::number_integer(value);
  }
  bool number_unsigned(typename Json::number_unsigned_t value) {
    return count() && Base::number_unsigned(value);
  }
  bool number_float(typename Json::number_float_t value, const std::string& text) {
    return count() && Base::number_float(value, text);
  }
  bool string(std::string& text) {
    if (limits_.is_python && text.starts_with('\0')) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      if (text == kNanMark) return number_float(std::numeric_limits<double>::quiet_NaN(), text);
      if (text == kInfinityMark || text == kMinusInfinityMark)
        return number_float(text == kInfinityMark ? kInfinity : -kInfinity, text);
      text.erase(0, 1);
    }
    return count() && Base::string(text);
  }
  bool start_object(std::size_t size) {
    deepen();
    keys_.emplace_back();
    return count() && Base::start_object(size);
  }
  bool end_object() {
    --depth_;
    keys_.pop_back();
    return Base::end_object();
  }
  bool start_array(std::size_t size) {
    deepen();
    return count() && Base::start_array(size);
  }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& text) {
    if (limits_.is_python && text.starts_with('\0')) {
      if (text == kNanMark || text == kInfinityMark || text == kMinusInfinityMark)
        throw Error("{}: not valid JSON: a key is no text", where_);
      text.erase(0, 1);
    }
    if (!keys_.back().insert(text).second && !limits_.is_python)
      throw Error("{}: duplicate key '{}'", where_, printable(text));
    if (keys_.back().size() > limits_.keys)
      throw Error("{}: expected at most {} keys in one object, found more", where_, limits_.keys);
    return Base::key(text);
  }

 private:
  bool count() {
    if (++values_ > limits_.values)
      throw Error("{}: more than {} values in its JSON", where_, limits_.values);
    return true;
  }
  void deepen() {
    if (++depth_ > kMaxDepth) throw Error("{}: JSON is nested deeper than {} levels", where_, kMaxDepth);
  }
  const std::string& where_;
  const Limits limits_;
  std::size_t values_ = 0;
  int depth_;
  std::vector<std::set<std::string>> keys_;  // those of each open object
};

// Throws Error that says where `text` stops being JSON: at its byte `byte`, from 1.
[[noreturn]] void refuse_at(std::string_view text, std::size_t byte, const std::string& where);

// Feeds `text` to a builder. Throws Error naming `where`, line and column for what is not JSON.
template <typename Json, typename AnyBuilder>
void parse(std::string_view text, const std::string& where, AnyBuilder& builder) {
  try {
    Json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const typename Json::parse_error& error) {
    refuse_at(text, error.byte, where);
  } catch (const typename Json::exception&) {  // a number that no double holds
    throw Error("{}: not valid JSON: a number is out of range", where);
  }
}

}  // namespace assay::strict_json
