"""The web page and its server; `vhdiffuser.web.app.create_app` builds the application."""
