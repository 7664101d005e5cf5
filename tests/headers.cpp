// The headers that tests have in common are compiled with this; see syncline_precompile() in cmake/Syncline.cmake.
