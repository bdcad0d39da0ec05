// Tables for people: columns as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace muster {

// A line for each row; the first row is the heading. All rows have as many cells as it has. Cells are ASCII.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace muster
