// The cells of a heat map, read back from its SVG: each stands where its lane and column cross, holds its
// number, and is darker than those of smaller values.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>

#include "assay/report/plot.h"
#include "support/xml.h"

namespace assay::report {
namespace {

struct DrawnCell {
  double x = 0, y = 0, number = 0, lightness = 0;
  bool has_white_words = false;
};

// By the text of their tooltips.
std::map<std::string, DrawnCell> drawn_cells(const std::string& svg) {
  static const std::regex mark(
      "<g class=\"mark\"><title>([^<]*)</title>\n"
      "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"[0-9.]+\" height=\"[0-9.]+\" fill=\"#([0-9a-f]{6})\"/>\n"
      "<text ([^>]*)>([^<]*)</text>\n</g>");
  std::map<std::string, DrawnCell> cells;
  for (std::sregex_iterator i(svg.begin(), svg.end(), mark), end; i != end; ++i) {
    const int rgb = std::stoi((*i)[4], nullptr, 16);
    cells[(*i)[1]] = {std::stod((*i)[2]), std::stod((*i)[3]), std::stod((*i)[6]),
                      0.2126 * (rgb >> 16) + 0.7152 * ((rgb >> 8) & 255) + 0.0722 * (rgb & 255),
                      (*i)[5].str().find("fill:#ffffff") != std::string::npos};
  }
  return cells;
}

Plot map_of(const std::vector<std::vector<double>>& values) {
  Plot plot;
  plot.form = PlotForm::cells;
  plot.title = "t";
  for (std::size_t lane = 0; lane < values.size(); ++lane) {
    plot.categories.push_back("layer " + std::to_string(lane));
    for (std::size_t column = 0; column < values[lane].size(); ++column)
      plot.cells.push_back(
          {lane, column, values[lane][column], std::to_string(lane) + "/" + std::to_string(column)});
  }
  for (std::size_t column = 0; column < values.front().size(); ++column)
    plot.columns.push_back("kind " + std::to_string(column));
  return plot;
}

TEST(HeatMap, ShowsEachValueInItsPlaceAndShade) {
  const std::vector<std::vector<double>> values{{0.0012345, 0.5, 0.02}, {0.03, 0.0001, 0.25}};
  const std::string svg = to_svg(map_of(values));
  EXPECT_EQ(test::why_not_xml(svg), "");
  const auto cells = drawn_cells(svg);
  ASSERT_EQ(cells.size(), 6U) << svg;
  for (std::size_t lane = 0; lane < 2; ++lane)
    for (std::size_t column = 0; column < 3; ++column) {
      const std::string key = std::to_string(lane) + "/" + std::to_string(column);
      const DrawnCell& cell = cells.at(key);
      EXPECT_NEAR(cell.number, values[lane][column], 0.005 * values[lane][column]) << key;
      EXPECT_EQ(cell.x, cells.at("0/" + std::to_string(column)).x) << "columns stand one below the other";
      EXPECT_EQ(cell.y, cells.at(std::to_string(lane) + "/0").y);
      // White words stand on dark ground alone.
      EXPECT_EQ(cell.has_white_words, cell.lightness < 148) << key << " " << cell.lightness;
      for (std::size_t l = 0; l < 2; ++l)
        for (std::size_t c = 0; c < 3; ++c)
          if (values[l][c] > values[lane][column]) {
            EXPECT_LT(cells.at(std::to_string(l) + "/" + std::to_string(c)).lightness, cell.lightness) << key;
          }
    }
  EXPECT_LT(cells.at("0/0").x, cells.at("0/1").x);
  EXPECT_LT(cells.at("0/0").y, cells.at("1/0").y);
  for (const char* words : {">layer 1<", ">kind 2<"}) EXPECT_NE(svg.find(words), std::string::npos) << words;
}

TEST(HeatMap, StandsValuesThatHaveNoShade) {
  const auto cells = drawn_cells(to_svg(map_of({{0, -0.5, 0.25, std::nan("")}})));
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells.at("0/0").lightness, cells.at("0/3").lightness);
  EXPECT_EQ(drawn_cells(to_svg(map_of({{0.25, 0.25}}))).size(), 2U) << "all equal";
  Plot astray = map_of({{1}});
  astray.cells.push_back({7, 0, 1, "astray"});
  EXPECT_EQ(drawn_cells(to_svg(astray)).size(), 1U) << "a cell outside of the map is left out";
  astray.cells.clear();
  EXPECT_NE(to_svg(astray).find("nothing was measured for this plot"), std::string::npos);
}

}  // namespace
}  // namespace assay::report
