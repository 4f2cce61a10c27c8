// A value that is wrong is named by its path, and nothing that a document holds is too much.
#include "assay/base/json_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(JsonReader, NamesThePathOfWhatIsWrong) {
  const OrderedJson json = {
      {"rows", {1, OrderedJson{{"values", {{"latency", "x"}}}}, OrderedJson{{"ids", {1, 2.5}}}}},
      {"deep", {{1}}},
      {"far", 3'000'000'000U}};
  const JsonReader reader(json, "results.json");
  const JsonReader rows = reader.at("rows");
  EXPECT_EQ(error_of([&] { (void)rows.at(1).at("values").at("latency").number(); }),
            "results.json: rows[1].values.latency: expected a number, found the string 'x'");
  EXPECT_EQ(
      error_of([&] { (void)rows.at(2).at("ids").whole_numbers<int>(); }),
      "results.json: rows[2].ids[1]: expected a whole number from -2147483648 to 2147483647, found 2.5");
  EXPECT_EQ(error_of([&] { (void)rows.at(0).at("label"); }),
            "results.json: rows[0]: expected an object, found 1");
  EXPECT_EQ(error_of([&] { (void)rows.at(3); }), "results.json: rows: expected at least 4 elements, found 3");
  EXPECT_EQ(error_of([&] { (void)reader.at("absent"); }), "results.json: the key 'absent' is missing");
  EXPECT_EQ(error_of([&] { (void)reader.at("deep").text(); }),
            "results.json: deep: expected a string, found an array");
  EXPECT_EQ(error_of([&] { (void)reader.at("far").whole<int>(); }),
            "results.json: far: expected a whole number from -2147483648 to 2147483647, found 3000000000");
  EXPECT_EQ(reader.at("far").whole<std::int64_t>(), 3'000'000'000);
  EXPECT_EQ(error_of([&] { (void)JsonReader(json).at("rows").boolean(); }),
            "rows: expected true or false, found an array");
}

TEST(JsonReader, ReadsWhatIsThere) {
  const OrderedJson json = {{"b", {1, 2.5}}, {"a", {"x", "y"}}, {"none", nullptr}, {"yes", true}};
  const JsonReader reader(json);
  EXPECT_EQ(reader.at("b").numbers(), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(reader.at("a").texts(), (std::vector<std::string>{"x", "y"}));
  EXPECT_FALSE(reader.has("none"));
  EXPECT_FALSE(reader.at("none").number_or_null());
  EXPECT_TRUE(reader.at("yes").boolean());
  std::string order;
  for (const auto& [key, value] : reader.members()) order += key + " ";
  EXPECT_EQ(order, "b a none yes ");
}

TEST(JsonReader, TellsWhatStandsThereAndRefusesWhatIsNotKnown) {
  const OrderedJson json = {{"number", 2.5}, {"text", "x"}, {"list", {1}}, {"yes", true}};
  const JsonReader reader(json, "request");
  EXPECT_TRUE(reader.at("number").is_number());
  EXPECT_TRUE(reader.at("list").is_array());
  EXPECT_TRUE(reader.at("yes").is_boolean());
  EXPECT_FALSE(reader.at("text").is_number() || reader.at("text").is_array() ||
               reader.at("text").is_boolean());
  EXPECT_EQ(reader.at("number").found() + ", " + reader.at("text").found() + ", " + reader.at("list").found(),
            "2.5, the string 'x', an array");
  const std::vector<std::string_view> all{"number", "text", "list", "yes"}, fewer{"number", "text", "list"};
  EXPECT_EQ(error_of([&] { reader.require_known(all); }), "no error");
  EXPECT_EQ(error_of([&] { reader.require_known(fewer); }),
            "request: unknown key 'yes': expected number, text, list");
}

TEST(ParseOrderedJson, SaysWhereItIsWrong) {
  EXPECT_EQ(error_of([] { parse_ordered_json("{\n \"a\": 1,\n \"b\": x}", "f.json"); }),
            "f.json: not valid JSON: line 3, column 7: a character that JSON does not allow there");
  EXPECT_EQ(error_of([] { parse_ordered_json("{\"a\": [1", "f.json"); }),
            "f.json: not valid JSON: line 1, column 9: the text ends too early");
  EXPECT_EQ(error_of([] { parse_ordered_json("", "f.json"); }),
            "f.json: not valid JSON: line 1, column 1: the text ends too early");
  EXPECT_EQ(error_of([] { parse_ordered_json("[1e999]", "f.json"); }),
            "f.json: not valid JSON: a number is out of range");
}

TEST(ParseOrderedJson, IsNotOverwhelmed) {
  EXPECT_NE(error_of([] { parse_ordered_json(std::string(1'000'000, '['), "f"); }).find("nested deeper"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_ordered_json("{\"a\": 1, \"a\": 2}", "f"); }).find("duplicate key 'a'"),
            std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"" + std::to_string(i) + "\": 0,";
  EXPECT_NE(error_of([&] { parse_ordered_json(many + "\"x\": 0}", "f"); }).find("4096 keys"),
            std::string::npos);
}

}  // namespace
}  // namespace assay
