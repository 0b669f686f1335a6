# Fetches what package-lock.json names into INTO/node_modules: cmake -DNPM=... -DSOURCE=... -DINTO=... -P packages.cmake
# No script of a package is run. What npm's cache has is not asked of the registry again.
file(MAKE_DIRECTORY ${INTO})
file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${INTO})
execute_process(
  COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error
  WORKING_DIRECTORY ${INTO} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "npm could not fetch the packages of ${SOURCE}/package-lock.json. The first build needs an npm registry; "
                      "later ones are content with npm's cache. npm says:\n${output}")
endif()
file(TOUCH ${INTO}/packages.stamp)
