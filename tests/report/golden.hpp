// Expected texts kept as files in tests/report/golden.
#pragma once

#include <string>

namespace syncline::test {

/// The file's content. With SYNCLINE_UPDATE_GOLDEN set in the environment the file is written anew from `actual` first;
/// explain the difference in the commit.
[[nodiscard]] std::string golden(const std::string& name, const std::string& actual);

}  // namespace syncline::test
