# cmake --install: the programs, their man pages and completions (the programs print them), and the files that users start from.
include(GNUInstallDirs)
set(PROGRAMS etwagent)
if(TARGET etwcollector)
  list(APPEND PROGRAMS etwcollector)
endif()
install(TARGETS ${PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(NOT CMAKE_CROSSCOMPILING)
  foreach(program IN LISTS PROGRAMS)
    install(CODE "
      set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}\")
      file(MAKE_DIRECTORY \"\${share}/man/man1\" \"\${share}/bash-completion/completions\")
      execute_process(COMMAND \"$<TARGET_FILE:${program}>\" --man OUTPUT_FILE \"\${share}/man/man1/${program}.1\" COMMAND_ERROR_IS_FATAL ANY)
      execute_process(COMMAND \"$<TARGET_FILE:${program}>\" --complete bash
                      OUTPUT_FILE \"\${share}/bash-completion/completions/${program}\" COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
endif()
install(FILES ${CMAKE_SOURCE_DIR}/config/collector.yaml ${CMAKE_SOURCE_DIR}/config/etwagent.yaml
        DESTINATION ${CMAKE_INSTALL_DATADIR}/etwagent)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/config/prometheus ${CMAKE_SOURCE_DIR}/config/grafana ${CMAKE_SOURCE_DIR}/config/rules
        DESTINATION ${CMAKE_INSTALL_DATADIR}/etwagent FILES_MATCHING PATTERN "*.yml" PATTERN "*.yaml" PATTERN "*.json")
