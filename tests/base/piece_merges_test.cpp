// Merges from scores and places, as Transformers lists them (tools/make_sentencepiece_fixtures.py).
#include "assay/base/piece_merges.h"

#include <gtest/gtest.h>

#include <limits>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "support/paths.h"

namespace assay {
namespace {

using Pieces = std::vector<std::string>;

std::string merges_error(const Pieces& pieces, const std::vector<float>& scores) {
  try {
    merges_from_scores(pieces, scores);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(PieceMerges, AreThoseOfTransformers) {
  const Json cases = read_json_object(source_folder() + "/tests/fixtures/piece_merges.json");
  EXPECT_EQ(cases.size(), 4U);
  for (const auto& [name, item] : cases.items()) {
    SCOPED_TRACE(name);
    const auto pieces = item.at("pieces").get<Pieces>();
    const auto scores = item.at("scores").get<std::vector<float>>();
    EXPECT_EQ(Json(merges_from_scores(pieces, scores)), item.at("scored"));
    EXPECT_EQ(Json(merges_from_order(pieces)), item.at("placed"));
    EXPECT_EQ(Json(merges_as_ranked(pieces, scores)), item.at("ranked"));
    EXPECT_GT(item.at("scored").size(), 5U);
  }
}

TEST(PieceMerges, OfARepeatedPieceHaveItsLastScore) {
  const Pieces pieces{"a", "b", "ab", "ba", "ab"};
  const PieceMerges expected{{"b", "a"}, {"a", "b"}};
  EXPECT_EQ(merges_from_scores(pieces, std::vector<float>{0, 0, 9, 5, 1}), expected);
  EXPECT_EQ(merges_from_order(pieces), expected);
}

TEST(PieceMerges, RefuseScoresThatAreNone) {
  EXPECT_EQ(merges_error({"a"}, {}), "scores of pieces: expected 1, one for each piece, found 0");
  EXPECT_EQ(merges_error({"a", "b"}, {0, std::numeric_limits<float>::quiet_NaN()}),
            "scores of pieces: expected a number at 1, found NaN");
}

// Each of n pieces "a", "aa", ... can be made in as many ways as it is long: n^3 bytes of n^2.
TEST(PieceMerges, DoNotGrowOutOfProportion) {
  Pieces pieces;
  for (std::size_t length = 1; length <= 2000; ++length) pieces.push_back(std::string(length, 'a'));
  EXPECT_EQ(merges_error(pieces, std::vector<float>(2000)),
            "merges of 2000 pieces: expected at most 48793216 bytes, 16 times the pieces, found more");
  pieces.resize(300);
  EXPECT_EQ(merges_from_order(pieces).size(), 300U * 299 / 2);
}

}  // namespace
}  // namespace assay
